"""COCO's figures (pycocotools) for detections, and what the model card needs besides."""

import contextlib
import io

import numpy as np
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval


def coco_truth(frames, names):
    """A COCO data set from `(width, height, objects)` a frame, objects as `[class, x0, y0, x1, y1, ignore]` in pixels."""
    images, annotations = [], []
    for k, (width, height, objects) in enumerate(frames):
        images.append({"id": k + 1, "width": width, "height": height})
        for c, x0, y0, x1, y1, ignore in np.asarray(objects, float).reshape(-1, 6):
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": k + 1,
                    "category_id": int(c) + 1,
                    "bbox": [x0, y0, x1 - x0, y1 - y0],
                    "area": (x1 - x0) * (y1 - y0),
                    "iscrowd": int(ignore),
                    "ignore": int(ignore),
                }
            )
    coco = COCO()
    coco.dataset = {
        "images": images,
        "annotations": annotations,
        "categories": [{"id": i + 1, "name": n} for i, n in enumerate(names)],
    }
    with contextlib.redirect_stdout(io.StringIO()):
        coco.createIndex()
    return coco


def coco_figures(truth, detections):
    """`detections`: a frame's `[x0, y0, x1, y1, score, class]`. Returns `(mAP50-95, mAP50, mAP75, per class {name: (AP, AP50)})`."""
    rows = [
        (k + 1, x0, y0, x1 - x0, y1 - y0, s, int(c) + 1)
        for k, found in enumerate(detections)
        for x0, y0, x1, y1, s, c in np.asarray(found, float).reshape(-1, 6)
    ]
    names = {c["id"]: c["name"] for c in truth.dataset["categories"]}
    if not rows:
        return 0.0, 0.0, 0.0, {n: (0.0, 0.0) for n in names.values()}
    with contextlib.redirect_stdout(io.StringIO()):
        found = truth.loadRes(np.array(rows))
        run = COCOeval(truth, found, "bbox")
        run.evaluate()
        run.accumulate()
        run.summarize()
    precision = run.eval["precision"][:, :, :, 0, 2]  # IoU, recall, class; all areas, 100 detections
    mean = lambda p: float(p[p > -1].mean()) if (p > -1).any() else float("nan")
    per_class = {
        names[i]: (mean(precision[:, :, k]), mean(precision[0, :, k])) for k, i in enumerate(run.params.catIds)
    }
    return float(run.stats[0]), float(run.stats[1]), float(run.stats[2]), per_class
