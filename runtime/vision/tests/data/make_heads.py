#!/usr/bin/env python3
"""Makes `heads.json`: output tensors by recipe for every head, and the objects they mean, by a plain numpy reading of
each head's definition written for this file. Needs numpy and opencv-python (overlap of turned boxes only).

A tensor's element number i (row-major) is `lo + (hi - lo) * u^p` rounded to f32, u being the top 24 bits of the
splitmix64 output for seed + i, divided by 2^24, and lo, hi, p those of its channel.
"""
import json, math, os
import cv2, numpy as np

IW, IH = 96, 64      # model input
SW, SH = 150, 90     # source picture
CONF, IOU = 0.45, 0.5


def u24(seed, n):
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.arange(n, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(40)).astype(np.float64) / 2.0**24


def tensor(o):
    dims, axis = o["dims"], o["axis"]
    u = u24(o["seed"], int(np.prod(dims))).reshape(dims)
    per = [(lo, hi, p) for n, lo, hi, p in o["channels"] for _ in range(n)]
    assert len(per) == dims[axis]
    shape = [1] * len(dims)
    shape[axis] = -1
    lo, hi, p = (np.array(v, dtype=np.float64).reshape(shape) for v in zip(*per))
    power = np.ones_like(u)
    for k in range(int(p.max())):
        power = np.where(k < p, power * u, power)
    return (lo + (hi - lo) * power).astype(np.float32)


def out(name, seed, dims, axis, *channels):
    return {"name": name, "dims": dims, "seed": seed, "axis": axis, "channels": [list(c) for c in channels]}


# ------------------------------------------------------------------ geometry, suppression
def place(mode):
    """scale and offset of each axis"""
    r = min(IW / SW, IH / SH)
    if mode == "letterbox":
        w, h = round(SW * r), round(SH * r)
        return r, r, round((IW - w) / 2 - 0.1), round((IH - h) / 2 - 0.1)
    if mode == "letterbox-top-left":
        return r, r, 0, 0
    if mode == "stretch":
        return IW / SW, IH / SH, 0, 0
    if mode == "crop":
        r = max(IW / SW, IH / SH)
        w, h = round(SW * r), round(SH * r)
        return w / SW, h / SH, -((w - IW) // 2), -((h - IH) // 2)
    raise ValueError(mode)


def back(p, g, clip=True):
    x, y = (p[0] - g[2]) / g[0], (p[1] - g[3]) / g[1]
    return (min(max(x, 0), SW), min(max(y, 0), SH)) if clip else (x, y)


def overlap(a, b):
    w = max(0, min(a[2], b[2]) - max(a[0], b[0]))
    h = max(0, min(a[3], b[3]) - max(a[1], b[1]))
    both = w * h
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both
    return both / union if union > 0 else 0


def overlap_turned(a, b):
    rect = lambda r: ((r[0], r[1]), (r[2], r[3]), math.degrees(r[4]))
    kind, region = cv2.rotatedRectangleIntersection(rect(a), rect(b))
    both = 0 if region is None else cv2.contourArea(cv2.convexHull(region))
    return both / (a[2] * a[3] + b[2] * b[3] - both)


def suppress(cands, fn=overlap):
    """cands: (score, class, index, box, more)"""
    cands = sorted(cands, key=lambda c: (-c[0], c[1], c[2]))
    keep = []
    for c in cands:
        if all(k[1] != c[1] or fn(k[3], c[3]) <= IOU for k in keep):
            keep.append(c)
    return keep


def xyxy(b):
    cx, cy, w, h = map(float, b)
    return [cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2]


def boxed(c, g):
    b = c[3]
    return {"class": int(c[1]), "score": float(c[0]), "bbox": [*back(b[:2], g), *back(b[2:], g)]}


STRIDES = (8, 16, 32)
CELLS = sum((IW // s) * (IH // s) for s in STRIDES)


def cells():
    for s in STRIDES:
        for y in range(IH // s):
            for x in range(IW // s):
                yield s, x, y


def rows_v8(t, nc):
    """[channels, cells] -> candidates of the best class"""
    for i in range(t.shape[1]):
        s = t[4:4 + nc, i]
        k = int(s.argmax())
        if s[k] > CONF:
            yield float(s[k]), k, i, xyxy(t[:4, i])


cases = []


def case(name, head, outputs, read, mode="letterbox", **more):
    tensors = [tensor(o) for o in outputs]
    found = read(tensors, place(mode))
    assert len(found) >= 3, (name, len(found))
    cases.append({"name": name, "head": head, "outputs": outputs, "expected": found, **more})
    print(f"{name}: {len(found)} objects")


XYWH = [(1, 0, IW, 1), (1, 0, IH, 1), (2, 6, 40, 1)]

# ------------------------------------------------------------------ the heads
nc = 5
v8 = [out("output0", 11, [1, 4 + nc, CELLS], 1, *XYWH, (nc, 0, 1, 6))]
read_v8 = lambda t, g: [boxed(c, g) for c in suppress(list(rows_v8(t[0][0], nc)))]
case("yolov8", "yolov8", v8, read_v8)
case("yolov8 transposed", "yolov8", [out("output0", 12, [1, CELLS, 4 + nc], 2, *XYWH, (nc, 0, 1, 6))],
     lambda t, g: [boxed(c, g) for c in suppress(list(rows_v8(t[0][0].T, nc)))])


def read_pose(t, g):
    t = t[0][0]
    found = []
    for c in suppress(list(rows_v8(t, 1))):
        k = t[5:, c[2]].reshape(-1, 3)
        found.append({**boxed(c, g), "keypoints": [[*back(p[:2], g), float(p[2])] for p in k.astype(float)]})
    return found


case("yolov8 pose", "yolov8-pose",
     [out("output0", 13, [1, 5 + 12, CELLS], 1, *XYWH, (1, 0, 1, 2), *([(1, 0, IW, 1), (1, 0, IH, 1), (1, 0, 1, 1)] * 4))],
     read_pose, keypoints=[4, 3])


def read_obb(t, g):
    t = t[0][0].astype(float)
    cands = []
    for i in range(t.shape[1]):
        s = t[4:4 + nc, i]
        k = int(s.argmax())
        if s[k] > CONF:
            cands.append((s[k], k, i, [*t[:4, i], t[4 + nc, i]]))
    found = []
    for c in suppress(cands, overlap_turned):
        cx, cy, w, h, a = c[3]
        ux, uy = math.cos(a) / g[0], math.sin(a) / g[1]
        x, y = back((cx, cy), g, False)
        found.append({"class": c[1], "score": float(c[0]), "turned": [x, y, w * math.hypot(ux, uy), h / g[1], math.atan2(uy, ux)]})
    return found


case("yolov8 oriented", "yolov8-obb",
     [out("output0", 14, [1, 4 + nc + 1, CELLS], 1, (1, 0, IW, 1), (1, 0, IH, 1), (1, 15, 50, 1), (1, 4, 15, 1), (nc, 0, 1, 6), (1, -0.78, 2.35, 1))], read_obb)

PW, PH, PC = 24, 16, 6


def read_mask(t, g, cands, coefficients):
    proto = t[1][0].astype(np.float64)
    found = []
    for c in cands:
        b = boxed(c, g)
        logits = np.tensordot(coefficients(c).astype(np.float64), proto, 1)
        inside = []
        ambiguous = 0
        for y in range(SH):
            for x in range(SW):
                px, py = x + 0.5, y + 0.5
                if not (b["bbox"][0] <= px < b["bbox"][2] and b["bbox"][1] <= py < b["bbox"][3]):
                    continue
                fx = min(max((px * g[0] + g[2]) * PW / IW - 0.5, 0), PW - 1)
                fy = min(max((py * g[1] + g[3]) * PH / IH - 0.5, 0), PH - 1)
                x0, y0 = min(int(fx), PW - 2), min(int(fy), PH - 2)
                ax, ay = fx - x0, fy - y0
                v = (logits[y0, x0] * (1 - ax) * (1 - ay) + logits[y0, x0 + 1] * ax * (1 - ay)
                     + logits[y0 + 1, x0] * (1 - ax) * ay + logits[y0 + 1, x0 + 1] * ax * ay)
                ambiguous += abs(v) < 1e-5
                if v > 0:
                    inside.append((x, y))
        xs, ys = [p[0] for p in inside], [p[1] for p in inside]
        found.append({**b, "mask": [len(inside), sum(xs), sum(ys), int(ambiguous)]})
    return found


case("yolov8 segment", "yolov8-segment",
     [out("output0", 15, [1, 4 + nc + PC, CELLS], 1, *XYWH, (nc, 0, 1, 9), (PC, -1, 1, 1)), out("output1", 16, [1, PC, PH, PW], 1, (PC, -1, 1, 1))],
     lambda t, g: read_mask(t, g, suppress(list(rows_v8(t[0][0], nc))), lambda c: t[0][0][4 + nc:, c[2]]))


def rows_obj(t, decode):
    for i, (row, cell) in enumerate(zip(t, list(cells()) * (len(t) // CELLS))):
        k = int(row[5:].argmax())
        s = float(np.float32(row[4]) * np.float32(row[5 + k]))
        if s > CONF:
            yield s, k, i, decode(row[:4].astype(float), cell)


def raw_yolox(b, cell):
    s, x, y = cell
    return xyxy([(b[0] + x) * s, (b[1] + y) * s, math.exp(b[2]) * s, math.exp(b[3]) * s])


case("yolov5", "yolov5", [out("output0", 17, [1, 3 * CELLS, 5 + nc], 2, *XYWH, (1, 0, 1, 2), (nc, 0, 1, 4))],
     lambda t, g: [boxed(c, g) for c in suppress(list(rows_obj(t[0][0], lambda b, c: xyxy(b))))])
case("yolox decoded", "yolox-decoded", [out("output", 18, [1, CELLS, 5 + nc], 2, *XYWH, (1, 0, 1, 1), (nc, 0, 1, 3))],
     lambda t, g: [boxed(c, g) for c in suppress(list(rows_obj(t[0][0], lambda b, c: xyxy(b))))], "letterbox-top-left")
case("yolox raw", "yolox", [out("output", 19, [1, CELLS, 5 + nc], 2, (2, -0.5, 1.5, 1), (2, -1, 1.6, 1), (1, 0, 1, 1), (nc, 0, 1, 3))],
     lambda t, g: [boxed(c, g) for c in suppress(list(rows_obj(t[0][0], raw_yolox)))], "letterbox-top-left")


def read_fastest(t, g):
    t = t[0][0].astype(float)
    sig = lambda v: 1 / (1 + math.exp(-v))
    cands = []
    h, w = t.shape[1:]
    for y in range(h):
        for x in range(w):
            k = int(t[5:, y, x].argmax())
            s = t[0, y, x] ** 0.6 * t[5 + k, y, x] ** 0.4
            if s > CONF:
                b = t[1:5, y, x]
                cands.append((s, k, y * w + x, xyxy([(x + math.tanh(b[0])) / w * IW, (y + math.tanh(b[1])) / h * IH, sig(b[2]) * IW, sig(b[3]) * IH])))
    return [boxed(c, g) for c in suppress(cands)]


case("fastestdet", "fastestdet", [out("758", 20, [1, 5 + nc, IH // 16, IW // 16], 1, (1, 0, 1, 1), (2, -1, 1, 1), (2, -3, 0, 1), (nc, 0, 1, 3))], read_fastest, "stretch")


def read_yunet(t, g):
    cands = []
    first = 0
    for level, s in enumerate(STRIDES):
        cls, obj, box, kps = (t[4 * level + j][0].astype(float) for j in range(4))
        w = IW // s
        for i in range(len(cls)):
            score = math.sqrt(cls[i, 0] * obj[i, 0])
            if score > CONF:
                x, y = i % w, i // w
                pts = [((x + kps[i, 2 * k]) * s, (y + kps[i, 2 * k + 1]) * s) for k in range(5)]
                b = xyxy([(x + box[i, 0]) * s, (y + box[i, 1]) * s, math.exp(box[i, 2]) * s, math.exp(box[i, 3]) * s])
                cands.append((score, 0, first + i, b, pts))
        first += len(cls)
    return [{**boxed(c, g), "keypoints": [[*back(p, g), 1.0] for p in c[4]]} for c in suppress(cands)]


faces = []
for j, s in enumerate(STRIDES):
    n = (IW // s) * (IH // s)
    faces += [out(f"cls_{s}", 21 + 4 * j, [1, n, 1], 2, (1, 0, 1, 3)), out(f"obj_{s}", 22 + 4 * j, [1, n, 1], 2, (1, 0, 1, 1)),
              out(f"bbox_{s}", 23 + 4 * j, [1, n, 4], 2, (2, -0.5, 1.5, 1), (2, 0, 1.2, 1)), out(f"kps_{s}", 24 + 4 * j, [1, n, 10], 2, (10, -1, 2, 1))]
case("yunet", "yunet", faces, read_yunet, "letterbox-top-left")


def rows_e2e(t):
    return [(float(r[4]), int(round(float(r[5]))), i, list(map(float, r[:4]))) for i, r in enumerate(t) if r[4] > CONF]


E2E = [(1, 0, IW / 2, 1), (1, 0, IH / 2, 1), (1, IW / 2, IW + 5, 1), (1, IH / 2, IH + 5, 1), (1, 0, 1, 3), (1, 0, 9, 1)]
by_score = lambda c: sorted(c, key=lambda c: (-c[0], c[1], c[2]))
case("end to end", "end2end", [out("output0", 40, [1, 30, 6], 2, *E2E)], lambda t, g: [boxed(c, g) for c in by_score(rows_e2e(t[0][0]))])
case("end to end segment", "end2end-segment",
     [out("output0", 41, [1, 20, 6 + PC], 2, *E2E, (PC, -1, 1, 1)), out("output1", 42, [1, PC, PH, PW], 1, (PC, -1, 1, 1))],
     lambda t, g: read_mask(t, g, by_score(rows_e2e(t[0][0])), lambda c: t[0][0][c[2], 6:]))
case("end to end pose", "end2end-pose", [out("output0", 43, [1, 20, 6 + 8], 2, *E2E, *([(1, 0, IW, 1), (1, 0, IH, 1)] * 4))],
     lambda t, g: [{**boxed(c, g), "keypoints": [[*back(p, g), 1.0] for p in t[0][0][c[2], 6:].astype(float).reshape(-1, 2)]} for c in by_score(rows_e2e(t[0][0]))],
     keypoints=[4, 2])


def read_rtdetr(t, g):
    cands = []
    for i, r in enumerate(t[0][0].astype(float)):
        k = int(r[4:].argmax())
        if r[4 + k] > CONF:
            cands.append((r[4 + k], k, i, xyxy([r[0] * IW, r[1] * IH, r[2] * IW, r[3] * IH])))
    return [boxed(c, g) for c in by_score(cands)]


case("rtdetr", "rtdetr", [out("output0", 44, [1, 60, 4 + nc], 2, (2, 0, 1, 1), (2, 0.05, 0.6, 1), (nc, 0, 1, 8))], read_rtdetr, "stretch")
case("rtdetr score and class", "rtdetr", [out("output0", 45, [1, 60, 6], 2, (2, 0, 1, 1), (2, 0.05, 0.6, 1), (1, 0, 1, 3), (1, 0, 9, 1))],
     lambda t, g: [boxed(c, g) for c in by_score([(s, k, i, xyxy([b[0] * IW, b[1] * IH, b[2] * IW, b[3] * IH])) for s, k, i, b in rows_e2e(t[0][0])])], "stretch")


def whole(g):
    return [*back((0, 0), g), *back((IW, IH), g)]


case("classify", "classify", [out("output0", 46, [1, 50], 1, (50, 0, 1, 3))],
     lambda t, g: [{"class": int(k), "score": float(t[0][0, k]), "bbox": whole(g)} for k in np.argsort(-t[0][0], kind="stable") if t[0][0, k] > CONF][:8], "crop", max_det=8)


def read_logits(t, g):
    v = t[0][0].astype(float)
    p = np.exp(v - v.max())
    p /= p.sum()
    return [{"class": int(k), "score": float(p[k]), "bbox": whole(g)} for k in np.argsort(-p, kind="stable")[:5]]


case("classify logits", "classify-logits", [out("output0", 47, [1, 50], 1, (50, -5, 9, 1))], read_logits, "crop", max_det=5, conf=0.0)

path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "heads.json")


def short(v):
    if isinstance(v, float):
        return float(f"{v:.7g}")
    if isinstance(v, dict):
        return {k: short(x) for k, x in v.items()}
    return [short(x) for x in v] if isinstance(v, (list, tuple)) else v


with open(path, "w") as f:
    head = {"input": [IW, IH], "source": [SW, SH], "conf": CONF, "iou": IOU}
    f.write(json.dumps(head)[:-1] + ', "cases": [\n' + ",\n".join(json.dumps(short(c)) for c in cases) + "\n]}\n")
