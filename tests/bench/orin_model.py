#!/usr/bin/env python3
"""What a Jetson Orin could do at best with a model's f16 layers: a calculation, not a measurement.

    python3 tests/bench/orin_model.py yolov8n.onnx [yolo11n.onnx ...] [--batch 1]

Three bounds, each a sum over layers that nothing can undercut without changing the layers:

* arithmetic: multiply-accumulates at the tensor cores' dense rate, 1024 f16 a multiprocessor and clock (from the AGX Orin data
  sheet's 170 sparse INT8 TOPS / 16 multiprocessors / 1.3 GHz, halved for dense and again for f16);
* roofline: each layer takes the longer of its arithmetic in whole waves of 64 x 64 tiles over the multiprocessors (depthwise
  and grouped ones by their bytes alone), and its bytes at the DRAM's bandwidth;
* bytes: inputs, weights and outputs once each. Convolutions carry their activation and residual; slices, concats, reshapes and
  transposes are free; what else computes is counted by its bytes.

No launch costs: a replayed graph's cost of a node was never measured on an Orin. Needs onnx.
"""
import argparse
import math

import onnx
from onnx import shape_inference

BOARDS = [  # name, multiprocessors, GHz, GB/s
    ("Orin Nano Super", 8, 1.02, 102.4),
    ("Orin NX 16GB", 8, 0.918, 102.4),
    ("AGX Orin 64GB", 16, 1.3, 204.8),
]
TILE, RATE, BYTES = 64, 1024, 2
# What strides express, and what rides in the epilogue of the convolution before it.
FREE = {"Reshape", "Transpose", "Slice", "Split", "Concat", "Squeeze", "Unsqueeze", "Identity", "Flatten", "Constant", "Shape", "Gather", "Cast", "Expand"}


def dims(graph, batch):
    """Sizes of all values; an open first dim is the batch."""
    out = {}
    for v in [*graph.input, *graph.value_info, *graph.output]:
        sizes = [d.dim_value or batch for d in v.type.tensor_type.shape.dim]
        out[v.name] = sizes
    out.update({i.name: list(i.dims) for i in graph.initializer})
    return out


def layers(path, batch):
    """`(tiles, depth of the sum, multiply-accumulates, bytes)` of each layer that costs something."""
    model = shape_inference.infer_shapes(onnx.load(path))
    graph = model.graph
    size = dims(graph, batch)
    count = lambda name: math.prod(size.get(name, [0]))
    scale = batch / (size[graph.input[0].name][0] or 1)
    made = {o: n for n in graph.node for o in n.output}
    fused = set()
    for n in graph.node:
        if n.op_type in ("Sigmoid", "Relu", "LeakyRelu", "HardSwish", "Clip") and made.get(n.input[0], n).op_type == "Conv":
            fused.add(n.output[0])
    for n in graph.node:
        # x * sigmoid(x) behind a convolution, and the sum of two of these: the residual is read, nothing else.
        source = [made.get(i) for i in n.input]
        if n.op_type == "Mul" and any(s is not None and s.output[0] in fused for s in source):
            fused.add(n.output[0])
        if n.op_type == "Add" and any(s is not None and (s.op_type == "Conv" or s.output[0] in fused) for s in source):
            yield 0, 0, 0, BYTES * count(n.output[0]) * scale
            fused.add(n.output[0])
    for n in graph.node:
        y = size.get(n.output[0], [])
        if n.op_type in FREE or n.output[0] in fused or not y:
            continue
        read = sum(count(i) for i in n.input if i in size)
        constants = sum(count(i) for i in n.input if i in size and i not in made and i != graph.input[0].name)
        moved = BYTES * ((read - constants + count(n.output[0])) * scale + constants)
        if n.op_type == "Conv":
            w = size[n.input[1]]
            depth = math.prod(w[1:])
            macs = count(n.output[0]) * depth * scale
            grouped = w[1] < size.get(n.input[0], w)[1]
            pixels = math.prod(y[2:]) * y[0] * scale
            tiles = 0 if grouped else math.ceil(pixels / TILE) * math.ceil(y[1] / TILE)
            yield tiles, depth, macs, moved
        elif n.op_type in ("MatMul", "Gemm"):
            depth = size[n.input[0]][-1]
            tiles = math.prod(y[:-2]) * scale * math.ceil(y[-2] / TILE) * math.ceil(y[-1] / TILE)
            yield tiles, depth, count(n.output[0]) * depth * scale, moved
        else:
            yield 0, 0, 0, moved


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("models", nargs="+")
    p.add_argument("--batch", type=int, default=1)
    args = p.parse_args()
    print("Calculated, not measured on a Jetson; milliseconds a batch of", args.batch)
    print("| model | board | arithmetic | bytes | roofline |\n|---|---|---|---|---|")
    for path in args.models:
        work = list(layers(path, args.batch))
        macs, moved = sum(w[2] for w in work), sum(w[3] for w in work)
        for name, units, clock, bandwidth in BOARDS:
            cycles = lambda w: math.ceil(w[0] / units) * TILE * TILE * w[1] / RATE
            bound = sum(max(cycles(w) / (clock * 1e6), w[3] / (bandwidth * 1e6)) for w in work)
            flat = macs / (units * RATE * clock * 1e6)
            print(f"| {path.rsplit('/', 1)[-1]} | {name} | {flat:.2f} | {moved / (bandwidth * 1e6):.2f} | {bound:.2f} |")
        print(f"| | {macs / 1e9:.2f} GMAC, {moved / 1e6:.0f} MB, {len(work)} layers | | | |")


if __name__ == "__main__":
    main()
