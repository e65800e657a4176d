"""Prints what pycocotools says about the boxes of `tests/coco_reference.rs`, as Rust constants.

pip install pycocotools==2.0.11 numpy; python coco_map.py [COCO_ANNOTATIONS.json]

Without a file: a made-up data set. With one: its own boxes, jittered. Both come from one generator that the test repeats
number by number.
"""
import contextlib
import io
import json
import sys

import numpy as np
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval


class Random:
    """Knuth's MMIX linear congruential generator, its upper 31 bits."""

    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 33) % n


CATEGORIES = [90, 1, 2, 5, 9, 77, 44]


def made_up(r):
    images = [{"id": 7 * (60 - i) + 3, "file_name": "%d.jpg" % i} for i in range(60)]
    annotations = []
    for image in images:
        for _ in range(r.below(8)):
            # The last two categories are never marked.
            category = CATEGORIES[r.below(5)]
            least, span = [(4, 36), (30, 90), (90, 310)][r.below(3)]
            w = least + r.below(span * 10) / 10
            h = least + r.below(span * 10) / 10
            x = r.below(4000) / 10
            y = r.below(3000) / 10
            area = w * h * 0.5 if r.below(2) == 1 else w * h
            crowd = 1 if r.below(12) == 0 else 0
            annotations.append({"id": len(annotations) + 1, "image_id": image["id"], "category_id": category,
                                "bbox": [x, y, w, h], "area": area, "iscrowd": crowd})
    categories = [{"id": c, "name": "c%d" % c} for c in CATEGORIES]
    return {"images": images, "categories": categories, "annotations": annotations}


def jitter(r, data):
    detections = []

    def add(image, category, bbox, score):
        detections.append({"image_id": image, "category_id": category, "bbox": bbox, "score": score})

    for a in data["annotations"]:
        x, y, w, h = a["bbox"]
        for _ in range(r.below(4)):
            dx, dy, dw, dh = [(r.below(41) - 20) / 200 for _ in range(4)]
            category = a["category_id"]
            if r.below(10) == 0:
                category = data["categories"][r.below(len(data["categories"]))]["id"]
            # The category at index 4 is marked but never found.
            if category != data["categories"][4]["id"]:
                add(a["image_id"], category, [x + dx * w, y + dy * h, w * (1 + dw), h * (1 + dh)], r.below(20) / 20)
    for image in data["images"]:
        for _ in range(r.below(4)):
            category = data["categories"][r.below(4)]["id"]
            box = [r.below(400) + 0.5, r.below(300) + 0.25, r.below(150) + 1.0, r.below(150) + 1.0]
            add(image["id"], category, box, r.below(20) / 20)
    # More than a hundred of one category in one image.
    crowded = data["annotations"][0]
    for i in range(130):
        x, y, w, h = crowded["bbox"]
        add(crowded["image_id"], crowded["category_id"], [x + i, y, w, h], r.below(40) / 40)
    return detections


def main():
    if len(sys.argv) > 1:
        data, r = json.load(open(sys.argv[1])), Random(2)
    else:
        r = Random(1)
        data = made_up(r)
    detections = jitter(r, data)
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO()
        truth.dataset = data
        truth.createIndex()
        e = COCOeval(truth, truth.loadRes(detections), "bbox")
        e.evaluate()
        e.accumulate()
        e.summarize()
    print("detections:", len(detections))
    print("stats: [" + ", ".join("%.12f" % s for s in e.stats) + "]")
    precision = e.eval["precision"][:, :, :, 0, 2]
    recall = e.eval["recall"][:, :, 0, 2]

    def mean(p):
        return p[p > -1].mean() if (p > -1).any() else -1.0

    print("classes: (category id, AP, AP50, AP75, AR)")
    for k, c in enumerate(e.params.catIds):
        if len(sys.argv) == 1 or k < 5:
            p = precision[:, :, k]
            print("(%d, [%.12f, %.12f, %.12f, %.12f])," % (c, mean(p), mean(p[0]), mean(p[5]), mean(recall[:, k])))


main()
