"""Which cells learn which object (task-aligned assignment), and the losses.

Assignment after Feng et al., "TOOD: Task-aligned One-stage Object Detection", https://arxiv.org/abs/2108.07755; box loss after
Zheng et al., "Enhancing Geometric Factors in Model Learning and Inference for Object Detection and Instance Segmentation" (CIoU),
https://arxiv.org/abs/2005.03572.
"""

import math

import torch
import torch.nn.functional as F

from model import STRIDES, decode

TOP = 10
# Each object may be learned by the 5 x 5 cells of every stride around its middle.
WINDOW = 5
BOX_WEIGHT = 6.0
SCORE_WEIGHT = 1.0
# How many objects of a picture that are to be ignored are looked at.
IGNORED = 16


def overlap(a, b):
    """IoU of broadcast boxes `[.., 4]`."""
    wh = (torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])).clamp(min=0)
    both = wh[..., 0] * wh[..., 1]
    area = lambda t: (t[..., 2] - t[..., 0]) * (t[..., 3] - t[..., 1])
    return both / (area(a) + area(b) - both + 1e-6)


def complete_iou(a, b):
    """CIoU of matched boxes `[.., 4]`."""
    iou = overlap(a, b)
    hull = torch.maximum(a[..., 2:], b[..., 2:]) - torch.minimum(a[..., :2], b[..., :2])
    apart = ((a[..., :2] + a[..., 2:] - b[..., :2] - b[..., 2:]) / 2).pow(2).sum(-1)
    w1, h1 = (a[..., 2:] - a[..., :2]).unbind(-1)
    w2, h2 = (b[..., 2:] - b[..., :2]).unbind(-1)
    shape = (4 / math.pi**2) * (torch.atan(w2 / (h2 + 1e-6)) - torch.atan(w1 / (h1 + 1e-6))).pow(2)
    with torch.no_grad():
        weight = shape / (1 - iou + shape + 1e-6)
    return iou - apart / (hull.pow(2).sum(-1) + 1e-6) - weight * shape


def candidates(truth, height, width):
    """Cells around each object's middle: indices `[B, M, Q]` and whether each may learn the object `[B, M, Q]`.

    A cell may if its middle lies in the box. Boxes smaller than the finest cells would lie between middles: there and at the
    next stride a box counts as at least 1.5 cells wide.
    """
    centre, half = (truth[..., :2] + truth[..., 2:]) / 2, (truth[..., 2:] - truth[..., :2]) / 2
    o = torch.arange(WINDOW, device=truth.device) - WINDOW // 2
    dy, dx = (d.reshape(-1) for d in torch.meshgrid(o, o, indexing="ij"))
    indices, fits, first = [], [], 0
    for k, s in enumerate(STRIDES):
        h, w = height // s, width // s
        x = (centre[..., 0, None] / s).floor() + dx
        y = (centre[..., 1, None] / s).floor() + dy
        reach = half.clamp(min=0.75 * s) if k < 2 else half
        near = ((x + 0.5) * s - centre[..., 0, None]).abs() < reach[..., 0, None]
        near &= ((y + 0.5) * s - centre[..., 1, None]).abs() < reach[..., 1, None]
        fits.append(near & (x >= 0) & (x < w) & (y >= 0) & (y < h))
        indices.append((first + y.clamp(0, h - 1) * w + x.clamp(0, w - 1)).long())
        first += h * w
    return torch.cat(indices, -1), torch.cat(fits, -1)


def pick(values, index):
    """Rows `index [B, ..]` of `values [B, N, K]`: `[B, .., K]`."""
    flat = index.flatten(1)
    return values.gather(1, flat[..., None].expand(-1, -1, values.shape[-1])).unflatten(1, index.shape[1:])


@torch.no_grad()
def assign(raw, logits, truth, classes, kind, middles, strides, size):
    """Which cells learn which object: `(cells [B, M, TOP], quality [B, M, TOP])`, quality 0 where none is meant.

    raw `[B, N, 4]`, logits `[B, N, C]`; truth `[B, M, 4]`, classes `[B, M]`, kind `[B, M]`: 0 empty row, 1 object, 2 to be ignored.
    """
    index, fits = candidates(truth, *size)
    boxes = decode(pick(raw, index), middles[index], strides[index])
    iou = overlap(truth[:, :, None], boxes)
    at = index * logits.shape[-1] + classes[..., None]
    score = logits.flatten(1).gather(1, at.flatten(1)).unflatten(1, at.shape[1:]).sigmoid()
    metric = torch.where(fits & (kind == 1)[..., None], score.sqrt() * iou.pow(6), 0.0)
    metric, place = metric.topk(TOP, -1)
    cell, iou = index.gather(-1, place), iou.gather(-1, place)
    # A cell that several objects chose goes to the one it overlaps most.
    claim = torch.where(metric > 0, iou, -1.0).flatten(1)
    most = torch.full(raw.shape[:2], -1.0, device=raw.device).scatter_reduce(1, cell.flatten(1), claim, "amax")
    mine = (claim >= most.gather(1, cell.flatten(1))).view_as(iou) & (metric > 0)
    metric = torch.where(mine, metric, 0.0)
    ceiling = torch.where(mine, iou, 0.0).amax(-1, keepdim=True)
    return cell, metric / (metric.amax(-1, keepdim=True) + 1e-30) * ceiling


@torch.no_grad()
def spared(truth, classes, kind, middles, strides, count):
    """`[B, N, C]`: cells in an object that is to be ignored, for its class: neither object nor background."""
    some, row = (kind == 2).float().topk(min(IGNORED, kind.shape[1]), 1)
    truth = pick(truth, row)
    centre, half = (truth[..., :2] + truth[..., 2:]) / 2, (truth[..., 2:] - truth[..., :2]) / 2
    reach = torch.maximum(half[:, :, None], torch.where(strides <= 8, 0.75 * strides, 0.0)[None, None])
    inside = ((middles - centre[:, :, None]).abs() < reach).all(-1) & (some > 0)[..., None]
    which = classes.gather(1, row)[..., None] == torch.arange(count, device=truth.device)
    return torch.einsum("bmn,bmc->bnc", inside.half(), which.half()) > 0


def losses(raw, logits, truth, classes, kind, middles, strides, size, bare=1.0):
    """`(box loss, score loss)`, each divided by the sum of the targets. `size` is the canvas, `(height, width)`.

    Pictures without an object weigh `bare`.
    """
    count = logits.shape[-1]
    cell, quality = assign(raw.detach(), logits.detach(), truth, classes, kind, middles, strides, size)
    target = torch.zeros_like(logits).flatten(1)
    target.scatter_reduce_(1, (cell * count + classes[..., None]).flatten(1), quality.flatten(1), "amax")
    target = target.view_as(logits)
    total = target.sum().clamp(min=1.0)
    # Every cell of the background counts in full: a score of 0.25 then means that one in four such boxes is an object.
    entropy = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    counts = (target > 0) | ~spared(truth, classes, kind, middles, strides, count)
    weight = 1 + (bare - 1) * ~(kind == 1).any(1)
    score_loss = ((entropy * counts).sum((1, 2)) * weight).sum() / total
    boxes = decode(pick(raw, cell), middles[cell], strides[cell])
    box_loss = ((1 - complete_iou(boxes, truth[:, :, None])) * quality).sum() / total
    return BOX_WEIGHT * box_loss, SCORE_WEIGHT * score_loss
