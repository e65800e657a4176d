#!/usr/bin/env python3
"""Makes `yuv.json`: colours of noise pictures in luma and chroma formats. Needs opencv-python and numpy.

"exact": the RGB to YUV matrix built from Kr and Kb, inverted numerically, in float64, clipped and rounded once.
"opencv": what cv2.cvtColor gives (BT.601 limited; even sizes, as it takes no others).
Byte i of a picture is the top byte of the splitmix64 output for seed + i; planes follow each other without gaps.
"""
import json, os
import cv2, numpy as np


def mix(seed, n):
    z = np.uint64(seed) + np.arange(n, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def yuv(fmt, w, h, data):
    """Y, U, V of each pixel."""
    cw, ch = (w + 1) // 2, (h + 1) // 2
    if fmt in ("yuyv", "uyvy"):
        q = data.reshape(h, cw, 4)
        l, c = (0, 1) if fmt == "yuyv" else (1, 0)
        y = q[:, :, [l, l + 2]].reshape(h, 2 * cw)[:, :w]
        u, v = (np.repeat(q[:, :, c + k], 2, axis=1)[:, :w] for k in (0, 2))
        return y, u, v
    y = data[: w * h].reshape(h, w)
    if fmt == "i420":
        u, v = (data[w * h + k * cw * ch :][: cw * ch].reshape(ch, cw) for k in (0, 1))
    else:
        c = data[w * h :].reshape(ch, cw, 2)
        u, v = (c[:, :, 0], c[:, :, 1]) if fmt == "nv12" else (c[:, :, 1], c[:, :, 0])
    up = lambda p: np.repeat(np.repeat(p, 2, axis=0), 2, axis=1)[:h, :w]
    return y, up(u), up(v)


def exact(y, u, v, matrix, full):
    kr, kb = {"bt601": (0.299, 0.114), "bt709": (0.2126, 0.0722), "bt2020": (0.2627, 0.0593)}[matrix]
    luma = np.array([kr, 1 - kr - kb, kb])
    forward = np.stack([luma, (np.array([0, 0, 1]) - luma) / (2 * (1 - kb)), (np.array([1, 0, 0]) - luma) / (2 * (1 - kr))])
    y, u, v = (a.astype(np.float64) for a in (y, u, v))
    y = y / 255 if full else np.maximum(y - 16, 0) / 219
    u, v = ((a - 128) / (255 if full else 224) for a in (u, v))
    rgb = np.stack([y, u, v], axis=-1) @ np.linalg.inv(forward).T
    return np.clip(np.rint(rgb * 255), 0, 255).astype(int)


CODES = {"yuyv": cv2.COLOR_YUV2RGB_YUY2, "uyvy": cv2.COLOR_YUV2RGB_UYVY, "nv12": cv2.COLOR_YUV2RGB_NV12,
         "nv21": cv2.COLOR_YUV2RGB_NV21, "i420": cv2.COLOR_YUV2RGB_I420}
cases, seed = [], 0
for fmt in CODES:
    for w, h, matrix, full in [(64, 48, "bt601", False), (33, 17, "bt601", False), (18, 6, "bt601", True), (9, 7, "bt709", False),
                               (16, 16, "bt709", True), (1, 1, "bt2020", False), (31, 2, "bt2020", True)]:
        seed += 1
        cw, ch = (w + 1) // 2, (h + 1) // 2
        n = h * cw * 4 if fmt in ("yuyv", "uyvy") else w * h + 2 * cw * ch
        data = (mix(seed, n) >> np.uint64(56)).astype(np.uint8)
        rgb = exact(*yuv(fmt, w, h, data), matrix, full).reshape(-1)
        at = (mix(1000 + seed, 60) % np.uint64(w * h * 3)).astype(int)
        case = {"format": fmt, "size": [w, h], "matrix": matrix, "full": full, "seed": seed, "at": at.tolist(),
                "exact": rgb[at].tolist()}
        if w % 2 == 0 and h % 2 == 0 and matrix == "bt601" and not full:
            shape = (h, w, 2) if fmt in ("yuyv", "uyvy") else (h * 3 // 2, w)
            case["opencv"] = cv2.cvtColor(data.reshape(shape), CODES[fmt]).reshape(-1)[at].tolist()
        cases.append(case)
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "yuv.json")
with open(path, "w") as f:
    f.write('{"made_by": "numpy %s, OpenCV %s", "cases": [\n' % (np.__version__, cv2.__version__)
            + ",\n".join(json.dumps(c) for c in cases) + "\n]}\n")
