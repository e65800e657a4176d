"""Writes the trained weights as ONNX, opset 17, with folded batch norms: float32, and float16 with float32 at the border.

`python export.py out/silu.pt OUT_DIR`
"""

import argparse
import io
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

from model import CLASSES, SIZE, STRIDES, Exported, SalticaNano, fold

METADATA = {
    "description": "saltica-nano: street objects in the scenes of Saltica's simulated camera",
    "author": "The Saltica authors",
    "license": "MIT OR Apache-2.0",
    "version": "1",
    "stride": str(max(STRIDES)),
    "task": "detect",
    "batch": "1",
    "imgsz": str([SIZE, SIZE]),
    "names": str(dict(enumerate(CLASSES))),
}


def load(path):
    saved = torch.load(path, map_location="cpu", weights_only=True)
    model = SalticaNano(act=saved["act"])
    model.load_state_dict(saved["weights"])
    return model.eval()


def to_onnx(model):
    buffer = io.BytesIO()
    torch.onnx.export(
        Exported(fold(model)).eval(),
        (torch.zeros(1, 3, SIZE, SIZE),),
        buffer,
        opset_version=17,
        input_names=["images"],
        output_names=["output0"],
        dynamo=False,
    )
    graph = onnx.load_from_string(buffer.getvalue())
    graph.graph.name = "saltica-nano"
    graph.producer_name = "saltica"
    graph.producer_version = ""
    graph.doc_string = METADATA["description"]
    for key, value in METADATA.items():
        entry = graph.metadata_props.add()
        entry.key, entry.value = key, value
    shorten(graph.graph)
    return graph


def shorten(graph):
    """Names as in model.py, without the exporter's prefixes: readable in a viewer, and some tens of kilobytes less.

    What `Exported` adds to the network is called `decode/`.
    """

    given = {}

    def short(name):
        if name not in given:
            candidate = name.removeprefix("/model/").removeprefix("model.").replace("_output_0", "")
            candidate = "decode" + candidate if candidate.startswith("/") else candidate
            given[name] = name if candidate in given.values() else candidate
        return given[name]

    for node in graph.node:
        node.doc_string = ""
        node.name = short(node.name)
        node.input[:] = [short(i) for i in node.input]
        node.output[:] = [short(o) for o in node.output]
    for tensor in graph.initializer:
        tensor.name = short(tensor.name)
    del graph.value_info[:]


def halve(source):
    """The network in float16; the decoding behind the last convolutions, whose pixels need more digits, in float32."""
    model = onnx.ModelProto()
    model.CopyFrom(source)
    graph = model.graph
    producers = {o: n for n in graph.node for o in n.output}
    names = {n.name for n in graph.node if n.name.startswith("decode/")}
    late = {o for n in graph.node if n.name in names for o in n.output}
    late_inputs = {i for n in graph.node if n.name in names for i in n.input}
    nodes, cast = [], {}
    nodes.append(helper.make_node("Cast", ["images"], ["images_f16"], "images_f16", to=TensorProto.FLOAT16))
    for node in graph.node:
        if node.name in names:
            for k, i in enumerate(node.input):
                if i in producers and i not in late and producers[i].op_type not in ("Constant",):
                    if i not in cast:
                        cast[i] = i + "_f32"
                        nodes.append(helper.make_node("Cast", [i], [cast[i]], cast[i], to=TensorProto.FLOAT))
                    node.input[k] = cast[i]
        else:
            for k, i in enumerate(node.input):
                if i == "images":
                    node.input[k] = "images_f16"
        nodes.append(node)
    del graph.node[:]
    graph.node.extend(nodes)
    for tensor in graph.initializer:
        early = any(tensor.name in n.input for n in graph.node if n.name not in names and n.op_type != "Resize")
        if tensor.data_type == TensorProto.FLOAT and early and tensor.name not in late_inputs:
            half = numpy_helper.to_array(tensor).astype(np.float16)
            assert np.isfinite(half).all(), tensor.name
            tensor.CopyFrom(numpy_helper.from_array(half, tensor.name))
        elif tensor.data_type == TensorProto.FLOAT:
            # The grids are even numbers below 2048: exact in half the bytes.
            values = numpy_helper.to_array(tensor)
            assert (values.astype(np.float16) == values).all(), tensor.name
            name, stored = tensor.name, tensor.name + "_f16"
            tensor.CopyFrom(numpy_helper.from_array(values.astype(np.float16), stored))
            graph.node.insert(0, helper.make_node("Cast", [stored], [name], name, to=TensorProto.FLOAT))
    del graph.value_info[:]
    return model


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("weights", type=Path)
    p.add_argument("out", type=Path)
    args = p.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    full = to_onnx(load(args.weights))
    for model, name in ((full, "saltica-nano-f32.onnx"), (halve(full), "saltica-nano.onnx")):
        onnx.checker.check_model(model, full_check=True)
        onnx.save(model, args.out / name)
        print(name, (args.out / name).stat().st_size, "bytes")


if __name__ == "__main__":
    main()
