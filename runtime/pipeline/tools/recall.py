#!/usr/bin/env python3
"""Recall of a COCO-trained YOLOX on simulated scenes, per class: do the drawings show what they claim?

Usage: recall.py MODEL.onnx COCO_DIR [--min-side 96] [--min-visibility 0.8] [--conf 0.25] [--iou 0.5] [--draw DIR]

MODEL is a YOLOX export with COCO's 80 classes, input 1x3xSxS (BGR, 0..255, letterboxed to the top left, padding 114).
COCO_DIR is what `write_coco` made. An object counts when its height or width is at least `min-side` pixels, its
visibility above `min-visibility`, its truncation below 0.3 and it is not to be ignored.
"""

import argparse
import collections
import json
import pathlib

import cv2
import numpy as np
import onnxruntime as ort

# Our class -> the COCO indices (of 80) that mean it.
COCO = {
    "person": [0],
    "bicycle": [1],
    "car": [2],
    "bus": [5],
    "truck": [7],
    "traffic light": [9],
    "sign": [11],
    "dog": [16],
}
NAMES = {0: "person", 1: "bicycle", 2: "car", 3: "motorbike", 5: "bus", 6: "train", 7: "truck", 9: "traffic light",
         10: "hydrant", 11: "stop sign", 12: "meter", 15: "cat", 16: "dog", 17: "horse", 18: "sheep", 19: "cow"}


def detect(session, image, conf):
    size = session.get_inputs()[0].shape[2]
    h, w = image.shape[:2]
    scale = min(size / h, size / w)
    resized = cv2.resize(image, (int(w * scale), int(h * scale)), interpolation=cv2.INTER_LINEAR)
    padded = np.full((size, size, 3), 114, np.uint8)
    padded[: resized.shape[0], : resized.shape[1]] = resized
    blob = padded.transpose(2, 0, 1)[None].astype(np.float32)
    out = session.run(None, {session.get_inputs()[0].name: blob})[0][0]
    grids, strides = [], []
    for s in (8, 16, 32):
        n = size // s
        ys, xs = np.mgrid[:n, :n]
        grids.append(np.stack([xs, ys], -1).reshape(-1, 2))
        strides.append(np.full((n * n, 1), s))
    grid, stride = np.concatenate(grids), np.concatenate(strides)
    xy = (out[:, :2] + grid) * stride
    wh = np.exp(out[:, 2:4]) * stride
    score = out[:, 4:5] * out[:, 5:]
    cls = score.argmax(1)
    best = score[np.arange(len(score)), cls]
    keep = best > conf
    xy, wh, cls, best = xy[keep], wh[keep], cls[keep], best[keep]
    boxes = np.concatenate([xy - wh / 2, xy + wh / 2], 1) / scale
    order, kept = np.argsort(-best), []
    for i in order:
        if all(cls[i] != cls[j] or iou(boxes[i], boxes[j]) < 0.65 for j in kept):
            kept.append(i)
    return [(boxes[i], int(cls[i]), float(best[i])) for i in kept]


def iou(a, b):
    w = min(a[2], b[2]) - max(a[0], b[0])
    h = min(a[3], b[3]) - max(a[1], b[1])
    if w <= 0 or h <= 0:
        return 0.0
    inter = w * h
    return inter / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - inter)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("model")
    p.add_argument("coco", type=pathlib.Path)
    p.add_argument("--min-side", type=float, default=96)
    p.add_argument("--min-visibility", type=float, default=0.8)
    p.add_argument("--conf", type=float, default=0.25)
    p.add_argument("--iou", type=float, default=0.5)
    p.add_argument("--draw", type=pathlib.Path)
    a = p.parse_args()
    data = json.loads((a.coco / "annotations.json").read_text())
    names = {c["id"]: c["name"] for c in data["categories"]}
    by_image = collections.defaultdict(list)
    for ann in data["annotations"]:
        by_image[ann["image_id"]].append(ann)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(a.model, options, providers=["CPUExecutionProvider"])
    found, total = collections.Counter(), collections.Counter()
    instead = collections.defaultdict(collections.Counter)
    if a.draw:
        a.draw.mkdir(parents=True, exist_ok=True)
    for image in data["images"]:
        picture = cv2.imread(str(a.coco / "images" / image["file_name"]))
        detections = detect(session, picture, a.conf)
        for ann in by_image[image["id"]]:
            name = names[ann["category_id"]]
            x, y, w, h = ann["bbox"]
            if max(w, h) < a.min_side or ann["visibility"] <= a.min_visibility or ann["ignore"] or ann["truncation"] > 0.3:
                continue
            total[name] += 1
            box = (x, y, x + w, y + h)
            hits = [d for d in detections if iou(box, d[0]) >= a.iou]
            if any(d[1] in COCO[name] for d in hits):
                found[name] += 1
            else:
                best = max(hits, key=lambda d: d[2], default=None)
                instead[name][NAMES.get(best[1], str(best[1])) if best else "nothing"] += 1
                if a.draw:
                    cv2.rectangle(picture, (int(x), int(y)), (int(x + w), int(y + h)), (0, 0, 255), 2)
        if a.draw:
            for box, cls, score in detections:
                q = [int(v) for v in box]
                cv2.rectangle(picture, (q[0], q[1]), (q[2], q[3]), (0, 255, 0), 1)
                cv2.putText(picture, f"{NAMES.get(cls, cls)} {score:.2f}", (q[0], max(q[1] - 3, 10)), 0, 0.45, (0, 255, 255), 1)
            cv2.imwrite(str(a.draw / image["file_name"]), picture)
    print(f"{len(data['images'])} images, conf {a.conf}, IoU {a.iou}, side >= {a.min_side}, visibility > {a.min_visibility}")
    for name in COCO:
        if total[name]:
            rest = ", ".join(f"{k} {v}" for k, v in instead[name].most_common(5))
            print(f"{name:14} {found[name]:4}/{total[name]:<4} {found[name] / total[name]:6.1%}   missed as: {rest}")


if __name__ == "__main__":
    main()
