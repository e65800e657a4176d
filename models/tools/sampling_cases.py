#!/usr/bin/env python3
"""Writes the cases of Resize and GridSample, with onnxruntime's answers as expected values.

    python3 models/tools/sampling_cases.py && cargo fmt

Needs onnx, onnxruntime and numpy. Inputs are short ramps with a bend, so that every wrong tap shows. Each row of the two
tables below is one case: what it is about, the node's attributes, and shapes.
"""

import pathlib

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

OPS = pathlib.Path(__file__).parent.parent / "src/graph/ops"
TYPES = {
    "f32": (TensorProto.FLOAT, np.float32),
    "f16": (TensorProto.FLOAT16, np.float16),
    "u8": (TensorProto.UINT8, np.uint8),
    "i64": (TensorProto.INT64, np.int64),
}


def numbers(shape, dtype):
    """Distinct numbers without a pattern that a wrong neighbour could repeat."""
    i = np.arange(int(np.prod(shape)))
    return (((i * 37) % 64) / (1 if dtype in ("u8", "i64") else 4)).astype(TYPES[dtype][1]).reshape(shape)


def run(op, opset, attrs, inputs):
    names = [f"i{k}" if v is not None else "" for k, v in enumerate(inputs)]
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for n, v in zip(names, inputs)
        if v is not None
    ]
    node = helper.make_node(op, names, ["y"], **attrs)
    out = helper.make_tensor_value_info("y", infos[0].type.tensor_type.elem_type, None)
    graph = helper.make_graph([node], "g", infos, [out])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {n: v for n, v in zip(names, inputs) if v is not None})[0]


def tensor(v):
    if v is None:
        return "None"
    kind = {"float32": "f32", "float16": "f16", "uint8": "u8", "int64": "i64"}[v.dtype.name]
    if kind in ("f32", "f16"):
        # The shortest digits that give the number back; an f16 is written as the f32 it is.
        data = ", ".join(np.format_float_positional(np.float32(x), trim="-") for x in v.ravel())
        data = ", ".join(x if "." in x else x + "." for x in data.split(", ")) if v.size else ""
    else:
        data = ", ".join(str(x) for x in v.ravel())
    return f"{kind}s(&{list(v.shape)}, &[{data}])"


def attr(name, v):
    if isinstance(v, str):
        return f'string("{name}", "{v}")'
    if isinstance(v, float):
        return f'float("{name}", {v})'
    if isinstance(v, list):
        return f'ints("{name}", &{v})'
    return f'int("{name}", {v})'


def write(path, op, cases, tolerance):
    lines = []
    for name, opset, attrs, inputs in cases:
        expected = run(op if opset != 9 else "Upsample", opset, attrs, inputs)
        default = "nearest" if op == "Resize" else "linear"
        integer = inputs[0].dtype.kind in "iu" or attrs.get("mode", default) == "nearest"
        close = "EXACT" if integer else "CLOSE_F16" if inputs[0].dtype == np.float16 else tolerance
        kind = "Upsample" if opset == 9 else op
        lines.append(
            f'case("{name}", node("{kind}", {opset}, {len(inputs)}, vec![{", ".join(attr(*a) for a in attrs.items())}]), '
            f'vec![{", ".join(map(tensor, inputs))}], vec![{tensor(expected)}], {close}),'
        )
    body = "\n".join(lines)
    used = [w for w in WORDS if f"{w}(" in body or f", {w})" in body]
    path.write_text(
        f"//! Cases of [`super::{op}`]: written by `models/tools/sampling_cases.py`, expected values by onnxruntime "
        f"{onnxruntime.__version__}.\n\nuse super::Case;\nuse super::literal::{{{', '.join(used)}}};\n\n"
        f"pub(super) fn cases() -> Vec<Case> {{\nvec![\n{body}\n]\n}}\n"
    )


WORDS = ["CLOSE", "CLOSE_F16", "EXACT", "case", "f16s", "f32s", "float", "i64s", "int", "ints", "node", "string", "u8s"]
f32 = lambda *v: np.array(v, np.float32)
i64 = lambda *v: np.array(v, np.int64)
none = f32()

# ---- Resize

resize = []


def add(name, attrs, shape, scales=None, sizes=None, opset=13, dtype="f32", roi=None):
    x = numbers(shape, dtype)
    if opset < 11:
        inputs = [x, f32(*scales)]
    elif sizes is None:
        inputs = [x, roi, f32(*scales)]
    else:
        inputs = [x, roi, none if opset < 13 else None, i64(*sizes)]
    resize.append((name, opset, attrs, inputs))


exported = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor", "cubic_coeff_a": -0.75}
add("doubled, as YOLO exporters write it", exported, [1, 2, 2, 3], scales=[1, 1, 2, 2], roi=none)
add("doubled, f16", exported, [1, 1, 2, 2], scales=[1, 1, 2, 2], dtype="f16")
add("doubled, u8", exported, [1, 1, 2, 2], scales=[1, 1, 2, 2], dtype="u8")
add("to sizes, opset 11", exported, [1, 1, 3, 2], sizes=[1, 1, 5, 7], opset=11, roi=none)
add("nothing changes", exported, [1, 1, 2, 2], scales=[1, 1, 1, 1])
for mode in ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric"]:
    opset = 19 if mode == "half_pixel_symmetric" else 13
    for kind in ["nearest", "linear", "cubic"]:
        attrs = {"mode": kind, "coordinate_transformation_mode": mode}
        add(f"{kind}, {mode}, larger", attrs, [1, 1, 2, 3], sizes=[1, 1, 4, 5], opset=opset)
        add(f"{kind}, {mode}, smaller", attrs, [1, 1, 5, 4], scales=[1, 1, 0.6, 0.8], opset=opset)
    add(f"linear, {mode}, to one pixel", {"mode": "linear", "coordinate_transformation_mode": mode}, [1, 1, 3, 4],
        sizes=[1, 1, 1, 1], opset=opset)
for rule in ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]:
    attrs = {"mode": "nearest", "coordinate_transformation_mode": "half_pixel", "nearest_mode": rule}
    add(f"{rule}, larger", attrs, [1, 1, 3, 2], sizes=[1, 1, 5, 4])
    add(f"{rule}, smaller", attrs, [1, 1, 4, 6], sizes=[1, 1, 2, 4])
add("cubic, a of -0.5, outside excluded", {"mode": "cubic", "cubic_coeff_a": -0.5, "exclude_outside": 1}, [1, 1, 3, 4],
    sizes=[1, 1, 5, 6])
add("linear, f16", {"mode": "linear"}, [1, 1, 2, 2], scales=[1, 1, 1.5, 2], dtype="f16")
add("axes 2 and 3", {"mode": "linear", "axes": [2, 3]}, [1, 2, 2, 2], sizes=[3, 4], opset=18)
add("axes in another order, negative", {"axes": [3, -2]}, [1, 1, 2, 3], scales=[2, 1.5], opset=18)
for policy in ["not_larger", "not_smaller"]:
    add(f"aspect {policy}", {"axes": [2, 3], "keep_aspect_ratio_policy": policy}, [1, 1, 2, 4], sizes=[5, 6], opset=18)
add("opset 10, larger", {}, [1, 1, 2, 2], scales=[1, 1, 2, 3], opset=10)
add("opset 10, smaller takes the one after", {}, [1, 1, 2, 4], scales=[1, 1, 0.6, 0.6], opset=10)
add("opset 10, linear", {"mode": "linear"}, [1, 1, 2, 3], scales=[1, 1, 2, 2], opset=10)
add("Upsample", {"mode": "nearest"}, [1, 1, 2, 2], scales=[1, 1, 2, 3], opset=9)
add("Upsample, linear", {"mode": "linear"}, [1, 1, 2, 2], scales=[1, 1, 2, 2], opset=9)
write(OPS / "resize_cases.rs", "Resize", resize, "CLOSE")

# ---- GridSample

grid_sample = []
# Inside, on pixels, half outside, far outside.
places = f32(-0.6, -0.3, 0.1, 0.4, -1, -1, 1, 1, -1.15, 0.2, 0.3, 1.2, 2.7, -2.2, -5.1, 0.05).reshape(1, 2, 4, 2)
for corners in [0, 1]:
    for mode in ["bilinear", "nearest", "bicubic"]:
        for outside in ["zeros", "border", "reflection"]:
            attrs = {"mode": mode, "padding_mode": outside, "align_corners": corners}
            grid_sample.append(
                (f"{mode}, {outside}, align_corners {corners}", 16, attrs, [numbers([1, 2, 3, 4], "f32"), places])
            )
for mode in ["linear", "nearest", "cubic"]:
    grid_sample.append((f"opset 20: {mode}", 20, {"mode": mode}, [numbers([1, 1, 3, 4], "f32"), places]))
two = np.concatenate([places, places[:, ::-1]])
grid_sample.append(("a batch of two", 16, {}, [numbers([2, 1, 2, 3], "f32"), two]))
grid_sample.append(("no places", 16, {}, [numbers([1, 1, 2, 3], "f32"), places[:, :0]]))
write(OPS / "grid_sample_cases.rs", "GridSample", grid_sample, "CLOSE")
