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
from pathlib import Path

import cv2
import numpy as np

SIZE = 480
PAD = 114
SCENES = ["street", "crowded", "sparse", "distractors", "empty"]
LIGHTS = ["day", "dusk", "night"]


def training_list(seeds, frames_per_seed, first_seed=1, empties=16, small=False):
    """Addresses and frame numbers to train on: mostly the camera's defaults, with variations of every parameter.

    `empties` is the share of empty scenes in percent; the others keep their proportions. `small` draws the empty ones at 640 x 360 and half as
    many frames of each: opening a scene costs by the pixel, so that more of them are seen in the same time.
    """
    out = []
    for seed in range(first_seed, first_seed + seeds):
        r = random.Random(seed)
        scene = r.choices(SCENES, [29, 27, 12, 16, 84 * empties / (100 - empties)])[0]
        keys = [f"seed={seed}", f"light={r.choice(LIGHTS)}"]
        # One seed in sixteen is a camera of another shape; its frames fill the square input further.
        if seed % 16 == 0:
            keys.append(f"size={r.choice(['640x480', '960x720', '1024x768'])}")
        else:
            size = r.choices(["1280x720", "1920x1080", "960x540", "640x360"], [88, 3, 5, 4])[0]
            keys.append("size=640x360" if small and scene == "empty" else f"size={size}")
        if r.random() < 0.25:
            keys.append("weather=rain")
        if r.random() < 0.15:
            keys.append(f"noise={r.uniform(0, 9):.1f}")
        if r.random() < 0.08:
            keys.append(f"blur={r.uniform(0.1, 0.7):.2f}")
        if r.random() < 0.08:
            keys.append(f"jpeg={r.randint(35, 95)}")
        if r.random() < 0.1 and scene != "empty":
            keys.append(f"objects={r.randint(1, 40)}")
        if r.random() < 0.1:
            keys.append("index=off")
        first, step = r.randint(0, 3000), r.randint(40, 150)
        address = f"sim:{scene}?" + "&".join(keys)
        # What looks like an object in an empty scene stays where it is: few frames of many scenes teach more.
        count = max(1, frames_per_seed // (4 if small else 2)) if scene == "empty" else frames_per_seed
        out.append((address, [first + k * step for k in range(count)]))
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


def picture_height(address):
    """Lines of the shrunk picture of a camera."""
    size = next((k[5:] for k in address.split("?")[1].split("&") if k.startswith("size=")), "1280x720")
    w, h = map(int, size.split("x"))
    return round(h * min(SIZE / w, SIZE / h))


def _draw(program, slots, bytes_per_slot, jobs, results):
    """Worker: draws the jobs it is given until there are no more."""
    cv2.setNumThreads(1)
    for slot, item in iter(jobs.get, None):
        height = picture_height(item[0])
        images = np.frombuffer(slots, np.uint8, len(item[1]) * height * SIZE * 3, slot * bytes_per_slot)
        images, found = images.reshape(-1, height, SIZE, 3), []
        for k, (_, header, rgb) in enumerate(stream(program, [item])):
            images[k], scale = shrink(rgb)
            found.append(
                np.array(
                    [[o["class"], *(scale * v for v in o["bbox"]), o["ignore"]] for o in header["objects"]],
                    np.float32,
                ).reshape(-1, 6)
            )
        results.put((slot, height, found))


class Drawer:
    """Draws `work` with worker processes while its owner does something else. Make it before the device is first used: it forks.

    Pictures pass through `slots` places in shared memory; a place is free again once `take` has moved on.
    """

    def __init__(self, program, work, workers, slots=None):
        self.todo, self.workers = list(work), workers
        self.frames = max(len(f) for _, f in work)
        self.per_slot = self.frames * SIZE * SIZE * 3
        slots = min(slots or 8 * workers, len(work))
        self.memory = mmap.mmap(-1, slots * self.per_slot)
        context = mp.get_context("fork")
        self.jobs, self.results = context.Queue(), context.Queue()
        self.next, self.open = 0, 0
        for slot in range(slots):
            self._give(slot)
        self.children = [
            context.Process(target=_draw, args=(program, self.memory, self.per_slot, self.jobs, self.results), daemon=True)
            for _ in range(workers)
        ]
        for c in self.children:
            c.start()

    def _give(self, slot):
        if self.next < len(self.todo):
            self.jobs.put((slot, self.todo[self.next]))
            self.next += 1
            self.open += 1

    def take(self, wait=False):
        """Yields `(pictures [k, h, 480, 3], [objects [n, 6]] * k)` of finished jobs; with `wait` at least one, if one is left.

        Objects are `[class, x0, y0, x1, y1, ignore]` in input pixels. Pictures are valid until the next step of the iteration.
        """
        while self.open:
            try:
                slot, height, found = self.results.get(wait, 5)
            except queue.Empty:
                if any(c.exitcode not in (None, 0) for c in self.children):
                    # Without this the exit would wait for jobs that nobody takes any more.
                    self.jobs.cancel_join_thread()
                    raise RuntimeError("a drawing process failed") from None
                if wait:
                    continue
                return
            images = np.frombuffer(self.memory, np.uint8, len(found) * height * SIZE * 3, slot * self.per_slot)
            yield images.reshape(-1, height, SIZE, 3), found
            self.open -= 1
            self._give(slot)
            wait = False

    def close(self):
        """Ends the workers; what they have not begun stays undrawn."""
        self.todo = []
        while not self.jobs.empty():
            try:
                self.jobs.get_nowait()
            except queue.Empty:
                break
        for _ in self.children:
            self.jobs.put(None)
        for c in self.children:
            c.join(timeout=10)
        self.jobs.cancel_join_thread()


def draw(program, work, workers):
    """Draws all frames of `work`: `{height: (pictures, [objects])}`."""
    drawer, out = Drawer(program, work, workers), {}
    while drawer.open:
        for images, found in drawer.take(wait=True):
            kept = out.setdefault(images.shape[1], ([], []))
            kept[0].append(images.copy())
            kept[1].extend(found)
    drawer.close()
    return {h: (np.concatenate(i), o) for h, (i, o) in out.items()}


def default_program():
    return Path(__file__).resolve().parents[3] / "target/release/examples/sim_frames"
