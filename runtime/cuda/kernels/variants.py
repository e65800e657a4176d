"""Writes variants.tsv from the CONV, CONV3 and STEM lines of the units: run it after changing one.

    python3 variants.py
"""
import os, re

HERE = os.path.dirname(os.path.abspath(__file__))

def up(n, m):
    return (n + m - 1) // m * m

def consts(kind, bn):
    return up(bn * 12 + 256 if kind == "I8" else bn * 4, 128)

def size(kind):
    return 2 if kind == "F16" else 1

def conv(kind, bm, bn, bkb, wm, wn, wk, stages, *_):
    es = size(kind)
    staged = wk * bm * (bn + 8) * 4 if wk > 1 else bm * (bn * es + 16)
    shared = consts(kind, bn) + bm * 16 + max(stages * (bm + bn) * bkb, staged)
    return bm, bn, bkb // es, wk, 32 * wm * wn * wk, shared

def conv3(kind, s, th, bn, cb, wm, wn, stages, bufs, *_):
    es, bm, pitch = size(kind), th * 8, cb + 16
    pipe = bufs * ((th - 1) * s + 3) * (10 if s == 1 else 17) * pitch + stages * 3 * bn * pitch
    shared = consts(kind, bn) + bm * 8 + max(pipe, bm * (bn * es + 16))
    return bm, bn, cb // es, 1, 32 * wm * wn, shared

def conv1(kind, bm, bn, kb, wm, wn, stages, *_):
    es, pitch = size(kind), kb + 16
    return bm, bn, kb // es, 1, 32 * wm * wn, consts(kind, bn) + bn * pitch + stages * bm * pitch + bm * (bn * es + 16)

def stem(kind, k, bn, th):
    es = size(kind)
    kyp = 4 if kind == "I8" and k == 3 else k
    patch = up((2 * (th - 1) + kyp) * (30 + (4 if k == 3 else 8)) * 4 * es, 16)
    return th * 16, bn, k, 1, 128, consts(kind, bn) + patch + 64 * (bn * es + 16)

def main():
    lines = ["# name\tunit\tstruct\tBM\tBN\tBK\tWK\tthreads\tshared"]
    for unit in sorted(f[:-3] for f in os.listdir(HERE) if f.endswith(".cu")):
        for m in re.finditer(r"^(CONV|CONV1|CONV3|STEM)\((\w+), (\w+), ([^)]*)\)", open(f"{HERE}/{unit}.cu").read(), re.M):
            numbers = [int(x) for x in m[4].split(",") if x.strip().isdigit()]
            row = {"CONV": conv, "CONV1": conv1, "CONV3": conv3, "STEM": stem}[m[1]](m[3], *numbers)
            lines.append("\t".join(map(str, (m[2], unit, "ConvParams", *row))))
        for m in re.finditer(r"^CONV_F32\((\w+), (\d+), (\d+)\)", open(f"{HERE}/{unit}.cu").read(), re.M):
            lines.append("\t".join((m[1], unit, "ConvParams", m[2], m[3], "16", "1", "256", "0")))
        for m in re.finditer(r"^CONV72\((\w+), (\w+), (\d+), (\d+)\)", open(f"{HERE}/{unit}.cu").read(), re.M):
            lines.append("\t".join((m[1], unit, "ConvParams", m[3], m[4], "32" if m[2] == "Half72" else "64", "1", "128", "0")))
    open(f"{HERE}/variants.tsv", "w").write("\n".join(lines) + "\n")

main()
