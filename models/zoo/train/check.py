"""Measures an ONNX file on the held-out frames that held_out.py packed: the figures and pictures of the model card.

`python check.py MODEL.onnx HELD_OUT.npz EMPTY.npz [--pictures DIR]`
"""

import argparse
from pathlib import Path

import cv2
import numpy as np
import onnxruntime

import data
from evaluate import coco_figures, coco_truth
from model import CLASSES

CONFIDENCE, SUPPRESSION = 0.25, 0.45
SIZES = [0, 16, 24, 32, 48, 64, 96, 128, 10_000]


def suppress(boxes, scores, classes, limit):
    """Greedy class-wise suppression; indices of what stays, best first."""
    order, kept = np.argsort(-scores, kind="stable"), []
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    while len(order):
        best, order = order[0], order[1:]
        kept.append(best)
        wh = np.minimum(boxes[best, 2:], boxes[order, 2:]) - np.maximum(boxes[best, :2], boxes[order, :2])
        both = wh.clip(0).prod(1)
        iou = both / (area[best] + area[order] - both + 1e-9)
        order = order[(iou <= limit) | (classes[order] != classes[best])]
    return np.array(kept, int)


def detections(output, top, scale, size, confidence, limit, keep=300):
    """`[x0, y0, x1, y1, score, class]` in pixels of the frame from `[4 + classes, N]`."""
    centre, half, scores = output[:2].T, output[2:4].T / 2, output[4:]
    c, cell = np.nonzero(scores > confidence)
    s = scores[c, cell]
    if len(s) > 3000:
        first = np.argsort(-s, kind="stable")[:3000]
        c, cell, s = c[first], cell[first], s[first]
    boxes = np.concatenate([centre - half, centre + half], 1)[cell]
    boxes[:, [1, 3]] -= top
    boxes = (boxes / scale).clip(0, [size[0], size[1], size[0], size[1]])
    kept = suppress(boxes, s, c, limit)[:keep]
    return np.concatenate([boxes[kept], s[kept, None], c[kept, None]], 1)


def run(session, images):
    """Raw outputs of all frames, and the height of the padding above a frame."""
    height, width = images.shape[1:3]
    top = (data.SIZE - height) // 2
    canvas = np.full((data.SIZE, data.SIZE, 3), data.PAD, np.uint8)
    for image in images:
        canvas[top : top + height] = image
        x = canvas.transpose(2, 0, 1)[None].astype(np.float32) / 255
        yield session.run(None, {"images": x})[0][0]


def overlaps(a, b):
    wh = np.minimum(a[:, None, 2:], b[None, :, 2:]) - np.maximum(a[:, None, :2], b[None, :, :2])
    both = wh.clip(0).prod(2)
    area = lambda t: (t[:, 2] - t[:, 0]) * (t[:, 3] - t[:, 1])
    return both / (area(a)[:, None] + area(b)[None] - both + 1e-9)


def match(found, truth):
    """Greedy one-to-one matches of one frame at IoU 0.5 with equal class: for each object whether it was found, and for each
    detection whether it is wrong (it matches nothing, and covers nothing that is to be ignored)."""
    hit, wrong = np.zeros(len(truth), bool), np.zeros(len(found), bool)
    if len(found) == 0:
        return hit, wrong
    iou = overlaps(found[:, :4], truth[:, 1:5]) if len(truth) else np.zeros((len(found), 0))
    for d in np.argsort(-found[:, 4], kind="stable"):
        fits = (iou[d] >= 0.5) & (truth[:, 0] == found[d, 5]) & ~hit & (truth[:, 5] == 0)
        if fits.any():
            hit[np.argmax(np.where(fits, iou[d], -1))] = True
            continue
        spared = truth[truth[:, 5] == 1]
        if len(spared):
            wh = np.minimum(spared[:, 3:5], found[d, 2:4]) - np.maximum(spared[:, 1:3], found[d, :2])
            area = (found[d, 2] - found[d, 0]) * (found[d, 3] - found[d, 1])
            if (wh.clip(0).prod(1) / (area + 1e-9) > 0.5).any():
                continue
        wrong[d] = True
    return hit, wrong


def picture(image, scale, found, truth, hit, wrong, path, crop=None):
    """A frame with what was found (green), found wrongly (red) and missed (yellow)."""
    zoom = 2
    view = cv2.resize(image, None, fx=zoom, fy=zoom, interpolation=cv2.INTER_CUBIC)[:, :, ::-1].copy()

    def box(b, colour, text):
        x0, y0, x1, y1 = (int(round(v * scale * zoom)) for v in b)
        cv2.rectangle(view, (x0, y0), (x1, y1), colour, 1)
        cv2.putText(view, text, (x0, max(8, y0 - 2)), cv2.FONT_HERSHEY_SIMPLEX, 0.35, colour, 1, cv2.LINE_AA)

    for f, w in zip(found, wrong):
        box(f[:4], (60, 60, 255) if w else (80, 220, 80), f"{CLASSES[int(f[5])]} {f[4]:.2f}")
    for t, h in zip(truth, hit):
        if not h and t[5] == 0:
            box(t[1:5], (0, 230, 255), f"missed {CLASSES[int(t[0])]}")
    for quality in range(85, 20, -5):
        _, encoded = cv2.imencode(".jpg", view, [cv2.IMWRITE_JPEG_QUALITY, quality])
        if len(encoded) <= 60_000:
            break
    path.write_bytes(encoded.tobytes())


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("model", type=Path)
    p.add_argument("held_out", type=Path)
    p.add_argument("empty", type=Path)
    p.add_argument("--pictures", type=Path)
    p.add_argument("--list", type=Path, help="the list that held_out.py wrote: names the frames in the pictures' list")
    args = p.parse_args()
    session = onnxruntime.InferenceSession(str(args.model), providers=["CPUExecutionProvider"])
    pack = np.load(args.held_out)
    images, rows, scale = pack["images"], pack["rows"], float(pack["scale"])
    size = (round(images.shape[2] / scale), round(images.shape[1] / scale))
    top = (data.SIZE - images.shape[1]) // 2
    outputs = list(run(session, images))
    truths = [rows[rows[:, 0] == k][:, 1:] for k in range(len(images))]
    loose = [detections(o, top, scale, size, 0.001, 0.65) for o in outputs]
    m, m50, m75, per_class = coco_figures(coco_truth([(*size, t[:, :6]) for t in truths], CLASSES), loose)
    print(f"mAP50-95 {m:.4f}  mAP50 {m50:.4f}  mAP75 {m75:.4f}")
    for name, (ap, ap50) in per_class.items():
        print(f"| {name} | {ap:.3f} | {ap50:.3f} |")
    found = [detections(o, top, scale, size, CONFIDENCE, SUPPRESSION) for o in outputs]
    matches = [match(f, t) for f, t in zip(found, truths)]
    hit, every = np.concatenate([h for h, _ in matches]), np.concatenate(truths)
    wrong = sum(int(w.sum()) for _, w in matches)
    counted = every[:, 5] == 0
    area = np.sqrt((every[:, 3] - every[:, 1]) * (every[:, 4] - every[:, 2]))
    print(f"at {CONFIDENCE}: recall {hit[counted].mean():.4f}, precision {hit.sum() / (hit.sum() + wrong):.4f}, {wrong} wrong")
    for low, high in zip(SIZES, SIZES[1:]):
        part = counted & (area >= low) & (area < high)
        print(f"| {low} to {high} | {part.sum()} | {hit[part].mean():.3f} |")
    for low, high in ((0.0, 0.3), (0.3, 0.5), (0.5, 0.85), (0.85, 1.01)):
        part = counted & (every[:, 6] >= low) & (every[:, 6] < high)
        print(f"| visible {low} to {high} | {part.sum()} | {hit[part].mean():.3f} |")
    if args.pictures:
        args.pictures.mkdir(parents=True, exist_ok=True)
        names = args.list.read_text().splitlines() if args.list else [str(k) for k in range(len(images))]
        errors = [int(w.sum()) * 2 + int((~h & (t[:, 5] == 0)).sum()) for (h, w), t in zip(matches, truths)]
        for n, k in enumerate(np.argsort(errors, kind="stable")[::-1][:24]):
            print(f"failure-{n}: {errors[k]} {names[k]}")
            picture(images[k], scale, found[k], truths[k], *matches[k], args.pictures / f"failure-{n}.jpg")
    pack = np.load(args.empty)
    false = [detections(o, top, scale, size, CONFIDENCE, SUPPRESSION) for o in run(session, pack["images"])]
    for k, f in enumerate(false):
        for d in f:
            print("empty", k, CLASSES[int(d[5])], d[:5].round(2))
    print(f"empty scenes: {sum(map(len, false))} detections in {len(false)} frames")


if __name__ == "__main__":
    main()
