"""Draws curve.png from a training log: `python curve.py train.csv curve.png`."""

import csv
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

rows = list(csv.DictReader(open(sys.argv[1])))
number = lambda key: [(int(r["step"]), float(r[key])) for r in rows if r[key]]
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3), dpi=80)
for key, label in (("box_loss", "boxes"), ("score_loss", "scores")):
    left.plot(*zip(*number(key)), label=label)
left.set(yscale="log", xlabel="step", title="loss")
for key, label in (("map50", "mAP50"), ("map50_95", "mAP50-95")):
    right.plot(*zip(*number(key)), marker="o", ms=3, label=label)
right.set(ylim=(0, 1), xlabel="step", title="tuning frames, averaged weights")
for axes in (left, right):
    axes.grid(alpha=0.3)
    axes.legend()
figure.tight_layout()
figure.savefig(sys.argv[2])
