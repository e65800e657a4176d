"""Draws the held-out frames, writes down what is in them, and packs them for `check.py`.

`python held_out.py PACK.npz [--markdown FILE]`; add `--empty` for the 1,000 frames of empty scenes.
"""

import argparse
import hashlib
from collections import Counter
from pathlib import Path

import numpy as np

import data
from model import CLASSES

SIZES = [0, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 10_000]
VISIBILITY = [0, 0.15, 0.3, 0.5, 0.7, 0.85, 0.95, 0.999, 1.01]


def histogram(values, edges, label):
    counts, _ = np.histogram(values, edges)
    rows = [f"| {label} | objects | share |", "| --- | ---: | ---: |"]
    for low, high, n in zip(edges, edges[1:], counts):
        rows.append(f"| {label_of(low, high)} | {n} | {100 * n / max(1, counts.sum()):.1f} % |")
    return rows


def label_of(low, high):
    return f"from {low}" if high == 10_000 else f"{low} to {min(high, 1) if high == 1.01 else high}"


def describe(rows, lights, scenes, rain, digest):
    counted = rows[rows[:, 6] == 0]
    area = np.sqrt((counted[:, 4] - counted[:, 2]) * (counted[:, 5] - counted[:, 3]))
    out = [
        f"- SHA-256 over the FNV-1a hashes of all frames in order (16 hexadecimal digits each): `{digest}`",
        f"- {len(rows)} objects: {len(counted)} counted, {len(rows) - len(counted)} to be ignored",
        f"- Scenes (frames): {', '.join(f'{k} {v}' for k, v in sorted(scenes.items()))}",
        f"- Light (frames): {', '.join(f'{k} {v}' for k, v in sorted(lights.items()))}; in rain: {rain}",
        "",
        "| class | counted | ignored |",
        "| --- | ---: | ---: |",
    ]
    for c, name in enumerate(CLASSES):
        of = rows[rows[:, 1] == c]
        out.append(f"| {name} | {(of[:, 6] == 0).sum()} | {(of[:, 6] == 1).sum()} |")
    out += ["", "Size, the square root of the box's area in pixels of the 1280 x 720 frame, of counted objects:", ""]
    out += histogram(area, SIZES, "pixels")
    out += ["", "Occlusion, as the visible share of an object's pixels, of counted objects:", ""]
    out += histogram(counted[:, 7], VISIBILITY, "visible")
    return out


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("pack", type=Path)
    p.add_argument("--program", type=Path, default=data.default_program())
    p.add_argument("--empty", action="store_true")
    p.add_argument("--markdown", type=Path)
    p.add_argument("--list", type=Path, help="write `FRAME ADDRESS` of every frame")
    args = p.parse_args()
    work = data.held_out_empty_list() if args.empty else data.held_out_list()
    if args.list:
        args.list.write_text("".join(f"{n} {a}\n" for a, frames in work for n in frames))
    images, rows, hashes = [], [], []
    lights, scenes, rain = Counter(), Counter(), 0
    for address, header, rgb in data.stream(args.program, work, hash=True):
        small, scale = data.shrink(rgb)
        for o in header["objects"]:
            rows.append([len(images), o["class"], *o["bbox"], o["ignore"], o["visibility"], o["truncation"]])
        images.append(small)
        hashes.append(header["fnv1a"])
        lights[header["light"]] += 1
        scenes[address.split("?")[0][4:]] += 1
        rain += "weather=rain" in address
    rows = np.array(rows, np.float32).reshape(-1, 9)
    np.savez(args.pack, images=np.stack(images), rows=rows, scale=scale)
    text = describe(rows, lights, scenes, rain, hashlib.sha256("".join(hashes).encode()).hexdigest())
    print("\n".join(text))
    if args.markdown:
        args.markdown.write_text("\n".join(text) + "\n")


if __name__ == "__main__":
    main()
