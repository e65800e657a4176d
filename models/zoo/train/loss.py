"""Which cells learn which object (task-aligned assignment), and the losses.

Assignment after Feng et al., "TOOD: Task-aligned One-stage Object Detection", https://arxiv.org/abs/2108.07755; box loss after
Zheng et al., "Enhancing Geometric Factors in Model Learning and Inference for Object Detection and Instance Segmentation" (CIoU),
https://arxiv.org/abs/2005.03572.
"""

import math

import torch
import torch.nn.functional as F

from model import decode

TOP = 10
BOX_WEIGHT = 6.0
SCORE_WEIGHT = 1.0


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


@torch.no_grad()
def assign(scores, boxes, truth, classes, kind, middles, strides):
    """Soft targets for every cell.

    scores `[B, N, C]`, boxes `[B, N, 4]`; truth `[B, M, 4]`, classes `[B, M]`, kind `[B, M]`: 0 empty row, 1 object, 2 to be
    ignored. Returns the matched row `[B, N]`, its quality `[B, N]` (0: background) and where cells count at all `[B, N]`.
    """
    centre, half = (truth[..., :2] + truth[..., 2:]) / 2, (truth[..., 2:] - truth[..., :2]) / 2
    # Objects smaller than the finest cells would fall between cell middles: their neighbours learn them.
    reach = torch.maximum(half[:, :, None], torch.where(strides[None, None] <= 8, 6.0, 0.0))
    inside = ((middles[None, None] - centre[:, :, None]).abs() < reach).all(-1)
    iou = overlap(truth[:, :, None], boxes[:, None])
    score = scores.transpose(1, 2).gather(1, classes[..., None].expand(-1, -1, scores.shape[1]))
    wanted = (kind == 1)[..., None] & inside
    metric = torch.where(wanted, score.sqrt() * iou.pow(6), 0.0)
    best = metric.topk(TOP, -1).values[..., -1:]
    chosen = wanted & (metric >= best) & (metric > 0)
    # A cell that several objects chose goes to the one it overlaps most.
    claim = torch.where(chosen, iou, -1.0)
    value, row = claim.max(1)
    taken = value >= 0
    mine = chosen & (torch.arange(truth.shape[1], device=truth.device)[None, :, None] == row[:, None])
    metric = torch.where(mine, metric, 0.0)
    ceiling = torch.where(mine, iou, 0.0).amax(-1, keepdim=True)
    quality = (metric / (metric.amax(-1, keepdim=True) + 1e-9) * ceiling).amax(1)
    ignored = ((kind == 2)[..., None] & inside).any(1)
    return row, torch.where(taken, quality, 0.0), taken | ~ignored


def losses(raw, logits, truth, classes, kind, middles, strides):
    """`(box loss, score loss)`, each divided by the sum of the targets."""
    boxes = decode(raw, middles, strides)
    row, quality, counts = assign(
        logits.detach().sigmoid(), boxes.detach(), truth, classes, kind, middles, strides
    )
    total = quality.sum().clamp(min=1.0)
    which = classes.gather(1, row)
    target = F.one_hot(which, logits.shape[-1]) * quality[..., None]
    entropy = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    # Confident mistakes on the background weigh more than the mass of easy cells.
    weight = torch.where(target > 0, 1.0, 0.75 * logits.detach().sigmoid().pow(1.0) + 0.25)
    score_loss = (entropy * weight * counts[..., None]).sum() / total
    matched = truth.gather(1, row[..., None].expand(-1, -1, 4))
    box_loss = ((1 - complete_iou(boxes, matched)) * quality).sum() / total
    return BOX_WEIGHT * box_loss, SCORE_WEIGHT * score_loss
