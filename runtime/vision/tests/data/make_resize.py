#!/usr/bin/env python3
"""Makes `resize.json`: samples of OpenCV's INTER_LINEAR resize of noise pictures. Needs opencv-python and numpy.

Byte i (row-major, interleaved) of a picture is the top byte of the splitmix64 output for seed + i.
"""
import json, os
import cv2, numpy as np

M = (1 << 64) - 1


def mix(seed, n):
    z = np.uint64(seed) + np.arange(n, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


cases = []
for i, (sw, sh, tw, th) in enumerate([
    (1920, 1080, 640, 360), (640, 480, 416, 312), (500, 375, 640, 480), (427, 640, 278, 416), (640, 427, 352, 352),
    (100, 70, 333, 211), (33, 57, 640, 640), (7, 5, 3, 2), (640, 480, 320, 240), (1280, 720, 640, 360), (1, 1, 5, 5),
    (2, 3, 9, 9), (1000, 10, 37, 11), (50, 50, 50, 80), (64, 48, 64, 48), (1, 200, 30, 31), (200, 1, 31, 30), (3, 3, 1, 1),
    (1001, 999, 500, 499), (17, 13, 34, 26),
]):
    n = sw * sh * 3
    picture = (mix(i + 1, n) >> np.uint64(56)).astype(np.uint8).reshape(sh, sw, 3)
    out = cv2.resize(picture, (tw, th), interpolation=cv2.INTER_LINEAR).reshape(-1)
    at = (mix(1000 + i, 96) % np.uint64(out.size)).astype(int)
    cases.append({"seed": i + 1, "source": [sw, sh], "target": [tw, th], "at": at.tolist(), "values": out[at].tolist()})
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "resize.json")
with open(path, "w") as f:
    f.write('{"made_by": "OpenCV %s", "cases": [\n' % cv2.__version__ + ",\n".join(json.dumps(c) for c in cases) + "\n]}\n")
