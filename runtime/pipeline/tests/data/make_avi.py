#!/usr/bin/env python3
"""Makes `clip.avi` (Motion JPEG, 5 frames of 64x48 at 12 fps) and `clip.json`: pixels of its frames as OpenCV decodes them.
Colours change gently, since JPEG leaves open how chroma is interpolated.
Needs opencv-python and numpy."""
import json, os
import cv2, numpy as np

here = os.path.dirname(os.path.abspath(__file__))
path = os.path.join(here, "clip.avi")
w = cv2.VideoWriter(path, cv2.CAP_OPENCV_MJPEG, cv2.VideoWriter_fourcc(*"MJPG"), 12, (64, 48))
for n in range(5):
    y, x = np.mgrid[0:48, 0:64]
    w.write(np.dstack([np.full_like(x, 60 + 30 * n), 100 + y * 2, 60 + x * 2]).astype(np.uint8))
w.release()
at = [[0, 0], [63, 0], [31, 20], [5, 47], [63, 47]]
frames, r = [], cv2.VideoCapture(path)
while True:
    ok, f = r.read()
    if not ok:
        break
    frames.append([[int(v) for v in f[y, x, ::-1]] for x, y in at])
with open(os.path.join(here, "clip.json"), "w") as f:
    json.dump({"made_by": "OpenCV " + cv2.__version__, "at": at, "rgb": frames}, f)
    f.write("\n")
