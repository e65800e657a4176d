#!/usr/bin/env python3
"""Saltica's tracker beside a maintained ByteTrack on the same observations, and its metrics beside TrackEval.

    cargo build --release -p saltica-pipeline --example tracks
    target/release/examples/tracks make DIR
    python3 tests/bench/tracking.py DIR [--tracks target/release/examples/tracks] [--detector target/release/saltica]

With --detector, what saltica-nano sees in the frames themselves is followed, too.

Needs numpy, trackers 2.6 (Roboflow's ByteTrackTracker, with its default parameters but for a lost time of 4 s, which is
Saltica's, and the frame rate) and trackeval 1.3. Every table row is scored by TrackEval here; the last line says how far the
program's own scores are from TrackEval's.
"""
import argparse
import json
import pathlib
import subprocess
import warnings

import numpy as np
import supervision as sv
import trackeval
from trackers import ByteTrackTracker

warnings.filterwarnings("ignore")


def read(path):
    frames = []
    for line in open(path):
        if line.startswith("frame "):
            frames.append((line.split()[1], []))
        elif frames:
            frames[-1][1].append([float(v) for v in line.split()])
    return frames


def detect(program, truth, tracks):
    """Looks at the frames of a truth file with the program's own model; writes what it saw, and the tracks of that."""
    address = open(truth).readline().strip()
    numbers = [round(float(time) * 30) for time, _ in read(truth)]
    step = int(np.gcd.reduce(np.diff(numbers)))
    clip = f"{address}{'&' if '?' in address else '?'}frames={numbers[-1] // step + 1}&step={step}"
    lines = subprocess.run(
        [program, "detect", clip, "--json", "--conf", "0.1", "--no-save"], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    frames = {r["frame_id"] * step: r["detections"] for r in map(json.loads, lines) if r["type"] == "frame"}
    stem = truth.with_name(truth.stem + "-nano")
    stem.with_suffix(".truth").write_text(truth.read_text())
    with open(stem.with_suffix(".seen"), "w") as f:
        for n in numbers:
            f.write(f"frame {n / 30:.6f}\n")
            for d in frames[n]:
                f.write(f"{d['class_id']} {d['score']:.4f} {' '.join(f'{v:.2f}' for v in d['box'])}\n")
    subprocess.run([tracks, "follow", stem.with_suffix(".seen"), stem.with_suffix(".tracks")], check=True)


def bytetrack(seen, out, fps):
    tracker = ByteTrackTracker(frame_rate=fps, lost_track_buffer=120)  # counted in 30ths of a second
    with open(out, "w") as f:
        for time, rows in seen:
            a = np.array(rows).reshape(-1, 6)
            found = tracker.update(
                sv.Detections(
                    xyxy=a[:, 2:].astype(np.float32), confidence=a[:, 1].astype(np.float32), class_id=a[:, 0].astype(int)
                )
            )
            f.write(f"frame {time}\n")
            for b, i, c in zip(found.xyxy, found.tracker_id, found.class_id):
                if i >= 0:
                    f.write(f"{i} {c} {b[0]:.2f} {b[1]:.2f} {b[2]:.2f} {b[3]:.2f}\n")


def iou(a, b):
    """Of all pairs of two lists of boxes."""
    lo = np.maximum(a[:, None, :2], b[None, :, :2])
    hi = np.minimum(a[:, None, 2:], b[None, :, 2:])
    both = np.prod(np.clip(hi - lo, 0, None), axis=2)
    area = lambda v: (v[:, 2] - v[:, 0]) * (v[:, 3] - v[:, 1])
    return both / (area(a)[:, None] + area(b)[None] - both)


def evaluate(truth, tracks):
    """TrackEval's HOTA, CLEAR and Identity. Boxes of different classes do not match; truth to be ignored, and the tracks
    that fit it best, are taken out first, as TrackEval does with the distractors of MOT17."""
    from scipy.optimize import linear_sum_assignment

    data = {k: [] for k in ("gt_ids", "tracker_ids", "similarity_scores")}
    names = ({}, {})
    for (_, t), (_, r) in zip(truth, tracks):
        t, r = np.array(t).reshape(-1, 7), np.array(r).reshape(-1, 6)
        s = iou(t[:, 3:].astype(np.float32), r[:, 2:].astype(np.float32)) * (t[:, 1][:, None] == r[:, 1][None])
        gate = np.where(s >= 0.5, s, 0)
        rows, cols = linear_sum_assignment(-gate)
        excused = [c for i, c in zip(rows, cols) if gate[i, c] > 0 and t[i, 2]]
        keep_t, keep_r = t[:, 2] == 0, ~np.isin(np.arange(len(r)), excused)
        number = lambda d, ids: np.array([d.setdefault(int(i), len(d)) for i in ids], int)
        data["gt_ids"].append(number(names[0], t[keep_t, 0]))
        data["tracker_ids"].append(number(names[1], r[keep_r, 0]))
        data["similarity_scores"].append(s[keep_t][:, keep_r])
    data.update(
        num_timesteps=len(truth),
        num_gt_ids=len(names[0]),
        num_tracker_ids=len(names[1]),
        num_gt_dets=sum(map(len, data["gt_ids"])),
        num_tracker_dets=sum(map(len, data["tracker_ids"])),
    )
    quiet = {"PRINT_CONFIG": False, "THRESHOLD": 0.5}
    hota = trackeval.metrics.HOTA().eval_sequence(data)
    clear = trackeval.metrics.CLEAR(quiet).eval_sequence(data)
    ids = trackeval.metrics.Identity(quiet).eval_sequence(data)
    return {
        "IDF1": ids["IDF1"],
        "HOTA": hota["HOTA"].mean(),
        "DetA": hota["DetA"].mean(),
        "AssA": hota["AssA"].mean(),
        "MOTA": clear["MOTA"],
        "switches": clear["IDSW"],
        "missed": clear["CLR_FN"],
        "false": clear["CLR_FP"],
    }


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("dir", type=pathlib.Path)
    p.add_argument("--tracks", default="target/release/examples/tracks")
    p.add_argument("--detector", help="the program")
    args = p.parse_args()
    if args.detector:
        for truth in sorted(args.dir.glob("*fps*.truth")):
            if not truth.stem.endswith("-nano"):
                detect(args.detector, truth, args.tracks)
    worst = 0.0
    print(f"{'':37} {'IDF1':>7} {'HOTA':>7} {'DetA':>7} {'AssA':>7} {'MOTA':>7} {'switches':>8} {'missed':>7} {'false':>6}")
    for seen in sorted(args.dir.glob("*.seen")):
        name = seen.stem
        truth = read(seen.with_suffix(".truth"))
        bytetrack(read(seen), seen.with_suffix(".bytetrack"), 5 if "5fps" in name else 30)
        for who in ("tracks", "bytetrack"):
            s = evaluate(truth, read(seen.with_suffix("." + who)))
            own = subprocess.run(
                [args.tracks, "score", seen.with_suffix(".truth"), seen.with_suffix("." + who)],
                check=True, capture_output=True, text=True,
            ).stdout
            for key in ("IDF1", "HOTA", "DetA", "AssA", "MOTA", "switches", "missed", "false"):
                value = float(own.split(f"{key} ")[1].split()[0].rstrip(",)"))
                worst = max(worst, abs(value - s[key]))
            label = f"{name} {'Saltica' if who == 'tracks' else 'ByteTrack'}"
            fractions = " ".join(f"{s[k]:7.4f}" for k in ("IDF1", "HOTA", "DetA", "AssA", "MOTA"))
            print(f"{label:37} {fractions} {s['switches']:8.0f} {s['missed']:7.0f} {s['false']:6.0f}")
    print(f"largest difference between the program's scores and TrackEval's: {worst:.5f}")


if __name__ == "__main__":
    main()
