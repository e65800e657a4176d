#!/usr/bin/env python3
"""Saltica beside onnxruntime on the same ONNX file, in turn (A B A B ...), so that a drifting machine hurts both alike.

    python3 tests/bench/peers.py MODEL.onnx [--threads 1,2] [--rounds 8] [--seconds 1.0] [--saltica target/release/saltica]

Only inference is timed (input ready, output readable), after a warm-up. Prints the minimum over all rounds and the median of the
rounds' medians, and the ratios (below 1: Saltica is faster). Needs numpy and onnxruntime.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

import numpy as np
import onnxruntime as ort


class Saltica:
    """One `saltica bench --raw` a round: it warms up, then measures; the start is not counted."""

    def __init__(self, args, model, threads):
        self.command = [args.saltica, "bench", model, "--raw", "--json", "--threads", str(threads), "--warmup", "3"]

    def run(self, seconds):
        command = self.command + ["--duration", str(seconds)]
        report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
        return report["infer_ms"]["min"], report["infer_ms"]["p50"]

    def close(self):
        pass


class Onnxruntime:
    def __init__(self, args, model, threads):
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        self.session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        port = self.session.get_inputs()[0]
        dims = [d if isinstance(d, int) else 1 for d in port.shape]
        self.feed = {port.name: np.random.default_rng(1).random(dims, dtype=np.float32)}
        self.session.run(None, self.feed)

    def run(self, seconds):
        samples, end = [], time.perf_counter() + seconds
        while not samples or time.perf_counter() < end:
            start = time.perf_counter()
            self.session.run(None, self.feed)
            samples.append((time.perf_counter() - start) * 1e3)
        return min(samples), statistics.median(samples)

    def close(self):
        del self.session


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL.onnx")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--saltica", default="target/release/saltica")
    args = parser.parse_args()
    print(f"onnxruntime {ort.__version__}, {args.rounds} rounds of {args.seconds} s each in turn, load {os.getloadavg()[0]:.1f}")
    print("| model | threads | saltica min / median ms | onnxruntime min / median ms | ratio of minima | of medians |")
    print("|---|---|---|---|---|---|")
    for model in args.models:
        for threads in map(int, args.threads.split(",")):
            sides = [Saltica(args, model, threads), Onnxruntime(args, model, threads)]
            samples = [[], []]
            for _ in range(args.rounds):
                for side, into in zip(sides, samples):
                    into.append(side.run(args.seconds))
            for side in sides:
                side.close()
            (a, b) = [(min(m for m, _ in s), statistics.median(m for _, m in s)) for s in samples]
            name = os.path.basename(model)
            print(f"| {name} | {threads} | {a[0]:.2f} / {a[1]:.2f} | {b[0]:.2f} / {b[1]:.2f} | {a[0]/b[0]:.2f} | {a[1]/b[1]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
