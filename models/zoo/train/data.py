"""Frames of the simulated camera for training and evaluation, drawn by the example program `sim_frames`.

Which frames belong to which set is decided here and nowhere else. The sets share no seed:
training 1 to 99,999, tuning from 1,000,000, held out from 2,000,000, held-out empty scenes from 3,000,000.
"""

import json
import mmap
import multiprocessing as mp
import queue
import random
import subprocess
import time
from pathlib import Path

import cv2
import numpy as np

SIZE = 480
PAD = 114
SCENES = ["street", "crowded", "sparse", "distractors", "empty"]
LIGHTS = ["day", "dusk", "night"]


def training_list(seeds, frames_per_seed):
    """Addresses and frame numbers to train on: mostly the camera's defaults, with variations of every parameter."""
    out = []
    for seed in range(1, seeds + 1):
        r = random.Random(seed)
        scene = r.choices(SCENES, [30, 28, 14, 18, 10])[0]
        keys = [f"seed={seed}", f"light={r.choice(LIGHTS)}"]
        # One seed in twelve is a camera of another shape; its frames fill the square input further.
        if seed % 12 == 0:
            keys.append(f"size={r.choice(['640x480', '960x720', '1024x768'])}")
        else:
            size = r.choices(["1280x720", "1920x1080", "960x540", "640x360"], [76, 6, 9, 9])[0]
            keys.append(f"size={size}")
        if r.random() < 0.25:
            keys.append("weather=rain")
        if r.random() < 0.3:
            keys.append(f"noise={r.uniform(0, 9):.1f}")
        if r.random() < 0.15:
            keys.append(f"blur={r.uniform(0.1, 0.7):.2f}")
        if r.random() < 0.15:
            keys.append(f"jpeg={r.randint(35, 95)}")
        if r.random() < 0.15 and scene != "empty":
            keys.append(f"objects={r.randint(1, 40)}")
        if r.random() < 0.15:
            keys.append("index=off")
        first, step = r.randint(0, 3000), r.randint(40, 150)
        address = f"sim:{scene}?" + "&".join(keys)
        out.append((address, [first + k * step for k in range(frames_per_seed)]))
    return out


def balanced_list(base, frames, frames_per_seed=5, scenes=((0, 30), (1, 24), (2, 20), (3, 20), (4, 6))):
    """Frames over all scenes and lights in equal parts of light, every fourth scene in rain, else all defaults.

    `scenes` pairs scenes with weights that add up to 100.
    """
    pattern = [s for s, weight in scenes for _ in range(weight)]
    random.Random(0).shuffle(pattern)
    out = []
    for k in range(frames // frames_per_seed):
        keys = f"seed={base + k}&light={LIGHTS[k % 3]}" + ("&weather=rain" if k // 3 % 4 == 3 else "")
        r = random.Random(base + k)
        first = r.randint(0, 2000)
        out.append(
            (f"sim:{SCENES[pattern[k % 100]]}?{keys}", [first + 97 * j for j in range(frames_per_seed)])
        )
    return out


def tuning_list(frames=400):
    return balanced_list(1_000_000, frames)


def held_out_list():
    return balanced_list(2_000_000, 1000)


def held_out_empty_list():
    return balanced_list(3_000_000, 1000, scenes=((4, 100),))


def stream(program, work, hash=False):
    """Yields `(address, header, rgb)` for every frame of `work`, one after another."""
    child = subprocess.Popen(
        [str(Path(program).resolve())] + (["--hash"] if hash else []), stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=1 << 20
    )
    for address, frames in work:
        for n in frames:
            child.stdin.write(f"{n} {address}\n".encode())
            child.stdin.flush()
            line = child.stdout.readline()
            if not line:
                raise RuntimeError(f"{program} stopped at frame {n} of {address}")
            header = json.loads(line)
            w, h = header["width"], header["height"]
            rgb = np.frombuffer(child.stdout.read(w * h * 3), np.uint8).reshape(h, w, 3)
            yield address, header, rgb
    child.stdin.close()
    child.stdout.close()
    if child.wait() != 0:
        raise RuntimeError(f"{program} failed")


def shrink(rgb):
    """The picture as the runtime scales it for the square input, without the padding, and the scale."""
    h, w = rgb.shape[:2]
    scale = min(SIZE / w, SIZE / h)
    return cv2.resize(rgb, (round(w * scale), round(h * scale)), interpolation=cv2.INTER_LINEAR), scale


class Group:
    """Frames of one size in shared memory, and their objects as `[class, x0, y0, x1, y1, ignore]` in input pixels."""

    def __init__(self, height, width, count):
        self.memory = mmap.mmap(-1, max(1, count) * height * width * 3)
        self.images = np.frombuffer(self.memory, np.uint8)[: count * height * width * 3].reshape(
            count, height, width, 3
        )
        self.objects = [np.zeros((0, 6), np.float32)] * count


def _draw(program, jobs, results):
    """Worker: draws the jobs it is given until there are no more."""
    cv2.setNumThreads(1)
    for group, first, item in iter(jobs.get, None):
        found = []
        for k, (_, header, rgb) in enumerate(stream(program, [item])):
            small, scale = shrink(rgb)
            _GROUPS[group].images[first + k] = small
            found.append(
                np.array(
                    [[o["class"], *(scale * v for v in o["bbox"]), o["ignore"]] for o in header["objects"]],
                    np.float32,
                ).reshape(-1, 6)
            )
        results.put((group, first, found))


_GROUPS = {}


def draw(program, work, workers, report=print):
    """Draws all frames of `work` with `workers` processes into one `Group` per picture height."""
    started, jobs, counts = time.time(), [], {}
    for address, frames in work:
        size = next((k[5:] for k in address.split("?")[1].split("&") if k.startswith("size=")), "1280x720")
        w, h = map(int, size.split("x"))
        height = round(h * min(SIZE / w, SIZE / h))
        jobs.append((height, counts.get(height, 0), (address, frames)))
        counts[height] = counts.get(height, 0) + len(frames)
    _GROUPS.clear()
    _GROUPS.update({height: Group(height, SIZE, n) for height, n in counts.items()})
    context = mp.get_context("fork")
    todo, done = context.Queue(), context.Queue()
    for job in jobs:
        todo.put(job)
    for _ in range(workers):
        todo.put(None)
    children = [context.Process(target=_draw, args=(program, todo, done), daemon=True) for _ in range(workers)]
    for c in children:
        c.start()
    total, seen, last = sum(counts.values()), 0, started
    while seen < total:
        try:
            group, first, found = done.get(timeout=5)
        except queue.Empty:
            if any(c.exitcode not in (None, 0) for c in children):
                # Without this the exit would wait for jobs that nobody takes any more.
                todo.cancel_join_thread()
                raise RuntimeError("a drawing process failed") from None
            continue
        for k, objects in enumerate(found):
            _GROUPS[group].objects[first + k] = objects
        seen += len(found)
        if time.time() - last > 15:
            last = time.time()
            report(f"{seen}/{total} frames drawn, {seen / (last - started):.0f} frames/s")
    for c in children:
        c.join()
    report(f"{total} frames drawn in {time.time() - started:.0f} s")
    return dict(_GROUPS)


def default_program():
    return Path(__file__).resolve().parents[3] / "target/release/examples/sim_frames"
