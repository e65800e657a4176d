"""Trains saltica-nano on scenes of the simulated camera. One seed, one command: see README.md."""

import argparse
import csv
import os
import time
from pathlib import Path

import numpy as np
import torch
import torchvision

import data
from augment import colour, place
from evaluate import coco_figures, coco_truth
from loss import losses
from model import CLASSES, SIZE, SalticaNano, cells, decode, flatten


def arguments():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--program", type=Path, default=data.default_program(), help="the built example sim_frames")
    p.add_argument("--out", type=Path, default=Path("out"))
    p.add_argument("--seeds", type=int, default=1500, help="scenes to draw")
    p.add_argument("--frames", type=int, default=16, help="frames of each scene")
    p.add_argument("--tuning", type=int, default=200, help="frames to watch progress on")
    p.add_argument("--steps", type=int, default=10000)
    p.add_argument("--batch", type=int, default=128)
    p.add_argument("--rate", type=float, default=2e-3)
    p.add_argument("--decay", type=float, default=0.02)
    p.add_argument("--act", default="silu", help="silu, relu, or both with a comma: one training each")
    p.add_argument("--evaluations", type=int, default=10)
    p.add_argument("--workers", type=int, default=os.cpu_count())
    p.add_argument("--start", type=Path, help="weights to go on from")
    p.add_argument("--rare", type=float, default=0.0, help="how much more often frames with a dog, the rarest class, are seen")
    p.add_argument("--seed", type=int, default=1)
    return p.parse_args()


class Pictures:
    """The drawn frames of one size on the device; objects as `[N, M, 6]` with their kind last (see `augment.place`)."""

    def __init__(self, group, rows, device):
        self.images = torch.empty(group.images.shape, dtype=torch.uint8, device=device)
        for k in range(0, len(group.images), 2048):
            self.images[k : k + 2048] = torch.from_numpy(group.images[k : k + 2048]).to(device)
        table = np.zeros((len(group.objects), rows, 6), np.float32)
        for k, o in enumerate(group.objects):
            table[k, : len(o)] = o
            table[k, : len(o), 5] += 1
        self.objects = torch.from_numpy(table).to(device)


class Batches:
    """Endless batches: five of six as 480 x 288, what a 16:9 picture fills; the sixth on the whole square canvas."""

    def __init__(self, groups, batch, seed, device, rare=0.0):
        rows = max(len(o) for g in groups.values() for o in g.objects)
        self.groups = {h: Pictures(g, rows, device) for h, g in sorted(groups.items())}
        self.batch = batch
        dog = CLASSES.index("dog")
        self.weights = {
            h: 1 + rare * ((g.objects[..., 0] == dog) & (g.objects[..., 5] == 1)).any(1).float()
            for h, g in self.groups.items()
        }
        self.random = torch.Generator(device=device).manual_seed(seed)
        self.orders = {h: (torch.zeros(0, dtype=torch.long, device=device), 0) for h in self.groups}

    def pick(self, height, count):
        """The next `count` frames in an order that is drawn anew when all have been seen."""
        order, at = self.orders[height]
        if at + count > len(order):
            # Without weights a permutation: every frame once. With weights, draws that repeat the frames that weigh more.
            w = self.weights[height]
            if (w == w[0]).all():
                order = torch.randperm(len(w), generator=self.random, device=w.device)
            else:
                order = torch.multinomial(w, len(w), True, generator=self.random)
            at = 0
        self.orders[height] = (order, at + count)
        index = order[at : at + count]
        g = self.groups[height]
        return g.images[index], g.objects[index]

    def next(self, step, geometry):
        square = step % 6 == 5
        if not square:
            x, o = place(*self.pick(270, self.batch), 288, SIZE, self.random, geometry)
        else:
            parts = [270] + [h for h in self.groups if h != 270]
            share = self.batch // 2 // len(parts)
            placed = [place(*self.pick(h, share), SIZE, SIZE, self.random, geometry) for h in parts]
            x, o = (torch.cat(t) for t in zip(*placed))
        return colour(x, self.random) if geometry else x, o


@torch.no_grad()
def detect(model, x, confidence=0.001, keep=300):
    """A frame's `[x0, y0, x1, y1, score, class]` in canvas pixels after class-wise suppression at IoU 0.65."""
    with torch.autocast(x.device.type, torch.bfloat16):
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
    for h, g in sorted(groups.items()):
        top = (SIZE - h) // 2
        for k in range(0, len(g.images), 64):
            x = torch.from_numpy(g.images[k : k + 64]).to(device)
            x, _ = place(x, torch.zeros((len(x), 1, 6), device=device), SIZE, SIZE, None, False)
            for f, o in zip(detect(model, x), g.objects[k : k + 64]):
                f[:, [1, 3]] -= top
                found.append(f)
                frames.append((SIZE, h, o))
    return coco_figures(coco_truth(frames, CLASSES), found)


def train(args, act, batches, tuning, device):
    torch.manual_seed(args.seed)
    model = SalticaNano(act=act).to(device, memory_format=torch.channels_last)
    if args.start:
        model.load_state_dict(torch.load(args.start, map_location=device, weights_only=True)["weights"])
    average = SalticaNano(act=act).to(device, memory_format=torch.channels_last)
    average.load_state_dict(model.state_dict())
    average.eval()
    print(f"{act}: {sum(p.numel() for p in model.parameters())} parameters", flush=True)
    matrices = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim <= 1]
    optimiser = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": args.decay}, {"params": others, "weight_decay": 0.0}],
        lr=args.rate,
        fused=device.type == "cuda",
    )
    warm = min(600, args.steps // 10 + 1)
    # The last part sees frames as they are, without distortion.
    plain = int(args.steps * 0.85)
    log = csv.writer(open(args.out / f"train-{act}.csv", "w", newline=""), lineterminator="\n")
    log.writerow(["step", "seconds", "rate", "box_loss", "score_loss", "map50_95", "map50"])
    grids = {}
    started, sums, seen = time.time(), torch.zeros(2, device=device), 0
    for step in range(args.steps):
        rate = args.rate * min(1, (step + 1) / warm) * (0.01 + 0.99 * (1 + np.cos(np.pi * step / args.steps)) / 2)
        for g in optimiser.param_groups:
            g["lr"] = rate
        x, objects = batches.next(step, step < plain)
        size = tuple(x.shape[2:])
        if size not in grids:
            grids[size] = cells(*size, device=device)
        with torch.autocast(device.type, torch.bfloat16):
            raw, logits = flatten(model(x.contiguous(memory_format=torch.channels_last)))
        box, score = losses(
            raw, logits, objects[..., 1:5].contiguous(), objects[..., 0].long(), objects[..., 5].contiguous(), *grids[size]
        )
        optimiser.zero_grad(set_to_none=True)
        (box + score).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        optimiser.step()
        with torch.no_grad():
            keep = 0.9995 * (1 - np.exp(-step / 1000))
            pairs = [(a, m) for a, m in zip(average.state_dict().values(), model.state_dict().values()) if a.is_floating_point()]
            torch._foreach_lerp_([a for a, _ in pairs], [m for _, m in pairs], 1 - keep)
        sums += torch.stack([box.detach(), score.detach()])
        seen += 1
        last = step + 1 == args.steps
        if last or (step + 1) % max(1, args.steps // (args.evaluations * 5)) == 0:
            evaluated = last or (step + 1) % max(1, args.steps // args.evaluations) == 0
            b, s = (sums / seen).tolist()
            figures = evaluate(average, tuning, device)[:2] if evaluated else ("", "")
            row = [step + 1, f"{time.time() - started:.0f}", f"{rate:.2e}", f"{b:.4f}", f"{s:.4f}"]
            log.writerow(row + [f"{v:.4f}" if v != "" else "" for v in figures])
            print(*row, *(f"{v:.4f}" for v in figures if v != ""), flush=True)
            sums.zero_()
            seen = 0
    torch.save({"act": act, "weights": {k: v.cpu() for k, v in average.state_dict().items()}}, args.out / f"{act}.pt")
    if device.type == "cuda":
        print(f"{torch.cuda.max_memory_allocated() / 2**30:.1f} GiB on the device at most")


def main():
    args = arguments()
    args.out.mkdir(parents=True, exist_ok=True)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = True
    drawn = data.draw(args.program, data.training_list(args.seeds, args.frames), args.workers)
    watched = data.draw(args.program, data.tuning_list(args.tuning), args.workers)
    batches = Batches(drawn, args.batch, args.seed, device, args.rare)
    for act in args.act.split(","):
        batches.random.manual_seed(args.seed)
        train(args, act, batches, watched, device)


if __name__ == "__main__":
    main()
