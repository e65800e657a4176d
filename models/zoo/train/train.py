"""Trains saltica-nano on scenes of the simulated camera, while processes draw more of them. See README.md."""

import argparse
import csv
import math
import os
import time
from pathlib import Path

import numpy as np
import torch
import torchvision

import data
import fused
from augment import colour, place
from evaluate import coco_figures, coco_truth
from loss import losses
from model import CLASSES, SIZE, ConvAct, SalticaNano, cells, decode, flatten

# Objects of a frame that are kept at most.
ROWS = 64
# Most batches are as wide as the input and as high as a 16:9 picture needs; some are the whole square.
WIDE, SQUARE = (288, SIZE), (SIZE, SIZE)


def arguments():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--program", type=Path, default=data.default_program(), help="the built example sim_frames")
    p.add_argument("--out", type=Path, default=Path("out"))
    p.add_argument("--seeds", type=int, default=13000, help="scenes to draw at most")
    p.add_argument("--frames", type=int, default=8, help="frames of each scene")
    p.add_argument("--first", type=int, default=1, help="the first scene's seed")
    p.add_argument("--lead", type=int, default=3000, help="frames to draw before the first step")
    p.add_argument("--tuning", type=int, default=200, help="frames to watch progress on")
    p.add_argument("--steps", type=int, default=14000, help="steps of the schedule")
    p.add_argument("--seconds", type=float, default=1e9, help="a limit that shortens the schedule where steps are slow")
    p.add_argument("--batch", type=int, default=256)
    p.add_argument("--rate", type=float, default=3e-3)
    p.add_argument("--warm", type=int, default=500, help="steps of rising rate")
    p.add_argument("--decay", type=float, default=0.02)
    p.add_argument("--plain", type=float, default=0.65, help="the share of the schedule with distorted pictures")
    p.add_argument("--act", default="silu", choices=["silu", "relu"])
    p.add_argument("--evaluations", type=int, default=5)
    p.add_argument("--workers", type=int, default=os.cpu_count())
    p.add_argument("--start", type=Path, help="weights to go on from")
    p.add_argument("--rare", type=float, default=1.0, help="how much more often frames with a dog, the rarest class, are seen")
    p.add_argument("--bare", type=float, default=1.0, help="the weight of pictures without an object")
    p.add_argument("--empties", type=int, default=16, help="empty scenes, in percent")
    p.add_argument("--small", action="store_true", help="draw empty scenes small: more of them in the same time")
    p.add_argument("--unfused", action="store_true", help="batch norm and activation as PyTorch has them")
    p.add_argument("--seed", type=int, default=1)
    return p.parse_args()


class Pictures:
    """Drawn frames of one height on the device: pictures, objects `[n, ROWS, 6]` with their kind last (see `augment.place`)."""

    def __init__(self, height, capacity, device):
        self.images = torch.zeros((capacity, height, SIZE, 3), dtype=torch.uint8, device=device)
        self.objects = torch.zeros((capacity, ROWS, 6), device=device)
        self.dogs = torch.zeros(capacity, device=device)
        self.count = 0

    def add(self, images, objects):
        n = min(len(images), len(self.images) - self.count)
        table = np.zeros((n, ROWS, 6), np.float32)
        for k, o in enumerate(objects[:n]):
            area = (o[:, 3] - o[:, 1]) * (o[:, 4] - o[:, 2])
            o = o[np.argsort(-area, kind="stable")[:ROWS]]
            table[k, : len(o)] = o
            table[k, : len(o), 5] += 1
        part = slice(self.count, self.count + n)
        self.images[part] = torch.from_numpy(images[:n])
        self.objects[part] = torch.from_numpy(table)
        self.dogs[part] = torch.from_numpy(
            ((table[..., 0] == CLASSES.index("dog")) & (table[..., 5] == 1)).any(1).astype(np.float32)
        )
        self.count += n


class Pool:
    """All frames drawn so far; batches of them by index."""

    def __init__(self, capacities, rare, device):
        self.groups = {h: Pictures(h, n, device) for h, n in capacities.items()}
        self.rare, self.orders = rare, {}

    def collect(self, drawer, wait=False):
        for images, objects in drawer.take(wait):
            self.groups[images.shape[1]].add(images, objects)

    def count(self):
        return sum(g.count for g in self.groups.values())

    def indices(self, height, n):
        """`n` frames, drawn with repetition; those with a dog `1 + rare` times as often."""
        order, at = self.orders.get(height, (None, 0))
        if order is None or at + n > len(order):
            g = self.groups[height]
            order, at = torch.multinomial(1 + self.rare * g.dogs[: g.count], 32 * n, True), 0
        self.orders[height] = (order, at + n)
        return order[at : at + n]


@torch.no_grad()
def detect(model, x, confidence=0.001, keep=300):
    """A frame's `[x0, y0, x1, y1, score, class]` in canvas pixels after class-wise suppression at IoU 0.65."""
    with torch.autocast(x.device.type, torch.bfloat16, enabled=x.is_cuda):
        raw, logits = flatten(model(x.contiguous(memory_format=torch.channels_last)))
    middles, strides = cells(*x.shape[2:], device=x.device)
    boxes, scores = decode(raw, middles, strides), logits.sigmoid()
    out = []
    for b, s in zip(boxes, scores):
        cell, c = torch.nonzero(s > confidence, as_tuple=True)
        value = s[cell, c]
        if len(value) > 3000:
            value, top = value.topk(3000)
            cell, c = cell[top], c[top]
        kept = torchvision.ops.batched_nms(b[cell], value, c, 0.65)[:keep]
        out.append(torch.cat([b[cell][kept], value[kept, None], c[kept, None].float()], 1).cpu().numpy())
    return out


def evaluate(model, groups, device):
    """COCO's figures on the frames as the runtime would place them."""
    frames, found = [], []
    for h, (images, objects) in sorted(groups.items()):
        top = (SIZE - h) // 2
        for k in range(0, len(images), 64):
            x = torch.from_numpy(images[k : k + 64]).to(device)
            x, _ = place(x, torch.zeros((len(x), 1, 6), device=device), *SQUARE)
            for f, o in zip(detect(model, x), objects[k : k + 64]):
                f[:, [1, 3]] -= top
                found.append(f)
                frames.append((SIZE, h, o))
    return coco_figures(coco_truth(frames, CLASSES), found)


class Step:
    """One step on one canvas: gathers a batch, distorts it, and learns from it.

    On a CUDA device the whole step is recorded once as a graph and then replayed: with layers this narrow, launching the
    kernels one by one takes several times longer than running them.
    """

    def __init__(self, learner, canvas, parts, memory=None):
        self.learner, self.canvas, self.parts = learner, canvas, parts
        device = learner.device
        self.index = {h: torch.zeros(n, dtype=torch.long, device=device) for h, n in parts.items()}
        self.grid = cells(*canvas, device=device)
        self.graph = None
        if device.type == "cuda":
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(3):
                    self.work()
            torch.cuda.current_stream().wait_stream(side)
            learner.optimiser.zero_grad(set_to_none=True)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=memory):
                self.work()
            self.graph = graph

    def work(self):
        m = self.learner
        placed = [
            place(g.images[i], g.objects[i], *self.canvas, m.amount)
            for g, i in ((m.pool.groups[h], i) for h, i in self.index.items())
        ]
        x, objects = (torch.cat(t) if len(t) > 1 else t[0] for t in zip(*placed))
        x = colour(x, m.amount).contiguous(memory_format=torch.channels_last)
        # The running means belong to wide batches alone: the grey bars of square ones would shift them.
        for norm in m.norms:
            norm.momentum = 0.03 if self.canvas == WIDE else 0.0
        with torch.autocast(x.device.type, torch.bfloat16, enabled=x.is_cuda, cache_enabled=False):
            raw, logits = flatten(m.model(x))
        box, score = losses(
            raw, logits, objects[..., 1:5].contiguous(), objects[..., 0].long(), objects[..., 5].contiguous(), *self.grid, self.canvas, m.bare
        )
        m.optimiser.zero_grad(set_to_none=True)
        (box + score).backward()
        torch.nn.utils.clip_grad_norm_(m.model.parameters(), 10.0, foreach=True)
        m.optimiser.step()
        m.sums += torch.stack([box.detach(), score.detach()])
        with torch.no_grad():
            apart = torch._foreach_sub(m.current, m.averaged)
            torch._foreach_mul_(apart, m.share)
            torch._foreach_add_(m.averaged, apart)

    def __call__(self):
        for h, n in self.parts.items():
            self.index[h].copy_(self.learner.pool.indices(h, n))
        if self.graph:
            self.graph.replay()
        else:
            self.work()


class Learner:
    """The model, its average, the optimiser, and what changes from step to step as values on the device."""

    def __init__(self, args, pool, device):
        torch.manual_seed(args.seed)
        self.device, self.pool, self.bare = device, pool, args.bare
        self.model = SalticaNano(act=args.act).to(device, memory_format=torch.channels_last)
        if args.start:
            self.model.load_state_dict(torch.load(args.start, map_location=device, weights_only=True)["weights"])
        self.average = SalticaNano(act=args.act).to(device, memory_format=torch.channels_last)
        self.average.load_state_dict(self.model.state_dict())
        self.average.eval()
        if device.type == "cuda" and args.act == "silu" and not args.unfused:
            try:
                works = fused.triton is not None and fused.ready(device)
            except Exception as e:  # A compiler that is missing or too old, whatever it throws.
                works = print(e)
            if works:
                for m in self.model.modules():
                    if isinstance(m, ConvAct):
                        m.fused = fused.norm_act
            else:
                print("the fused kernels do not work here: training without them", flush=True)
        self.norms = [m for m in self.model.modules() if isinstance(m, torch.nn.BatchNorm2d)]
        pairs = zip(self.average.state_dict().values(), self.model.state_dict().values())
        self.averaged, self.current = map(list, zip(*((a, m) for a, m in pairs if a.is_floating_point())))
        value = lambda v: torch.tensor(v, device=device)
        self.rate, self.share, self.amount, self.sums = value(0.0), value(0.0), value(1.0), torch.zeros(2, device=device)
        parameters = list(self.model.parameters())
        groups = [
            {"params": [p for p in parameters if p.ndim > 1], "weight_decay": args.decay},
            {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
        ]
        cuda = device.type == "cuda"
        self.optimiser = torch.optim.AdamW(groups, lr=self.rate, fused=cuda, capturable=cuda)
        # Recording runs the steps for real: with a rate of nothing, and what they left behind is undone.
        before = {k: v.clone() for k, v in self.model.state_dict().items()}
        half = args.batch // 2
        self.wide = Step(self, WIDE, {270: args.batch})
        self.square = Step(self, SQUARE, {270: half // 2, 360: half // 2}, self.wide.graph and self.wide.graph.pool())
        self.model.load_state_dict(before)
        for a, m in zip(self.averaged, self.current):
            a.copy_(m)
        for state in self.optimiser.state.values():
            for v in state.values():
                v.zero_()
        self.sums.zero_()

    def save(self, path):
        weights = {k: v.detach().cpu().contiguous().clone() for k, v in self.average.state_dict().items()}
        torch.save({"act": "silu" if "SiLU" in repr(self.average) else "relu", "weights": weights}, path)


def train(args, learner, pool, drawer, tuning, device):
    log = csv.writer(open(args.out / "train.csv", "w", newline="", buffering=1), lineterminator="\n")
    log.writerow(["step", "seconds", "frames", "rate", "box_loss", "score_loss", "map50_95", "map50"])
    started, step, since, evaluated, reported, progress = time.time(), 0, 0, 0, 0, 0.0
    while progress < 1:
        learner.rate.fill_(args.rate * min(1, (step + 1) / args.warm) * (0.01 + 0.99 * (1 + math.cos(math.pi * progress)) / 2))
        learner.share.fill_(1 - 0.9996 * (1 - math.exp(-(step + 1) / 1000)))
        learner.amount.fill_(float(progress < args.plain))
        (learner.square if step % 8 == 7 else learner.wide)()
        step += 1
        since += 1
        if step % 4 == 0 and device.type == "cuda":
            # The queue of launches must not run ahead of the clock that ends the schedule.
            torch.cuda.synchronize()
        pool.collect(drawer)
        # By steps, or by time where they would not fit in: the rate then falls as fast as the time runs out.
        progress = max(step / args.steps, (time.time() - started) / args.seconds)
        if progress >= (reported + 1) / 50 or progress >= 1:
            reported = int(progress * 50)
            box, score = (learner.sums / since).tolist()
            row = [step, f"{time.time() - started:.0f}", pool.count(), f"{learner.rate.item():.2e}", f"{box:.4f}", f"{score:.4f}"]
            figures = []
            if progress >= (evaluated + 1) / args.evaluations or progress >= 1:
                evaluated = int(progress * args.evaluations)
                figures = [f"{v:.4f}" for v in evaluate(learner.average, tuning, device)[:2]]
                learner.save(args.out / f"{args.act}.pt")
            log.writerow(row + (figures or ["", ""]))
            print(*row, *figures, flush=True)
            learner.sums.zero_()
            since = 0
    seconds = time.time() - started
    print(f"{step} steps in {seconds:.0f} s, {step / seconds:.1f} a second; {pool.count()} frames drawn", flush=True)
    learner.save(args.out / f"{args.act}.pt")


def main():
    args = arguments()
    args.out.mkdir(parents=True, exist_ok=True)
    began = time.time()
    work = data.training_list(args.seeds, args.frames, args.first, args.empties, args.small)
    tuning = data.draw(args.program, data.tuning_list(args.tuning), args.workers)
    drawer = data.Drawer(args.program, work, args.workers)
    # Only now: the drawing processes are forks, and a fork after the device's first use would not work.
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    capacities = {}
    for address, frames in work:
        h = data.picture_height(address)
        capacities[h] = capacities.get(h, 0) + len(frames)
    pool = Pool(capacities, args.rare, device)
    learner = Learner(args, pool, device)
    print(f"{sum(p.numel() for p in learner.model.parameters())} parameters, ready after {time.time() - began:.0f} s", flush=True)
    lead = min(args.lead, sum(capacities.values()))
    while pool.count() < lead or min(g.count for g in pool.groups.values()) == 0:
        pool.collect(drawer, wait=True)
    print(f"{pool.count()} frames drawn after {time.time() - began:.0f} s", flush=True)
    train(args, learner, pool, drawer, tuning, device)
    drawer.close()
    if device.type == "cuda":
        print(f"{torch.cuda.max_memory_allocated() / 2**30:.1f} GiB on the device at most")


if __name__ == "__main__":
    main()
