"""Batches on the device: placing, scaling, mirroring and colour, for pictures and boxes together."""

import torch
import torch.nn.functional as F

PAD = 114 / 255


def uniform(x, shape, low, high):
    return torch.rand(shape, device=x.device) * (high - low) + low


def place(images, objects, height, width, amount=None):
    """Puts uint8 pictures `[B, h, w, 3]` on a grey canvas of `height` x `width`.

    objects `[B, M, 6]`: class, x0, y0, x1, y1, kind (0 empty, 1 object, 2 ignore). With `amount`, a tensor from 0 to 1, up to half
    of the pictures are mirrored and up to two in five scaled by 0.7 to 1.35 and moved; others stay as the runtime places them.
    Returns float pictures `[B, 3, height, width]` in 0..1 and the objects on the canvas.
    """
    b, h, w, _ = images.shape
    x = images.permute(0, 3, 1, 2).float() / 255 - PAD
    left, top = (width - w) // 2, (height - h) // 2
    objects = objects.clone()
    if amount is None:
        x = F.pad(x, (left, width - w - left, top, height - h - top)) + PAD
        objects[..., 1:5:2] += left
        objects[..., 2:5:2] += top
        return x, objects
    mirror = torch.rand(b, device=x.device) < 0.5 * amount
    x = torch.where(mirror[:, None, None, None], x.flip(3), x)
    x0, x1 = objects[..., 1].clone(), objects[..., 3].clone()
    objects[..., 1] = torch.where(mirror[:, None], w - x1, x0)
    objects[..., 3] = torch.where(mirror[:, None], w - x0, x1)
    warp = torch.rand(b, device=x.device) < 0.4 * amount
    scale = torch.where(warp, uniform(x, b, -0.36, 0.30).exp(), 1.0)
    # Where the middle of the picture comes to lie, in whole pixels for pictures that keep their scale.
    spare_x, spare_y = (width - w * scale).abs() / 2, (height - h * scale).abs() / 2
    at_x = left + w / 2 + torch.where(warp, uniform(x, b, -1, 1) * (spare_x + 16), 0.0)
    at_y = top + h / 2 + torch.where(warp, uniform(x, b, -1, 1) * (spare_y + 8), 0.0)
    column = (torch.arange(width, device=x.device) + 0.5)[None]
    line = (torch.arange(height, device=x.device) + 0.5)[None]
    sx = ((column - at_x[:, None]) / scale[:, None] + w / 2) / w * 2 - 1
    sy = ((line - at_y[:, None]) / scale[:, None] + h / 2) / h * 2 - 1
    grid = torch.stack(
        [sx[:, None].expand(-1, height, -1), sy[:, :, None].expand(-1, -1, width)], -1
    )
    x = F.grid_sample(x, grid, mode="bilinear", padding_mode="zeros", align_corners=False) + PAD
    shift = lambda v, middle, at: (v - middle) * scale[:, None] + at[:, None]
    box = torch.stack(
        [
            shift(objects[..., 1], w / 2, at_x),
            shift(objects[..., 2], h / 2, at_y),
            shift(objects[..., 3], w / 2, at_x),
            shift(objects[..., 4], h / 2, at_y),
        ],
        -1,
    )
    cut = torch.stack([v.clamp(0, limit) for v, limit in zip(box.unbind(-1), (width, height) * 2)], -1)
    area = lambda t: (t[..., 2] - t[..., 0]) * (t[..., 3] - t[..., 1])
    side = (cut[..., 2:] - cut[..., :2]).amin(-1)
    kind = objects[..., 5]
    doubtful = (area(cut) < 0.3 * area(box)) | ((side < 1.4) & (scale[:, None] < 1))
    kind = torch.where((kind == 1) & doubtful, 2.0, kind)
    kind = torch.where((cut[..., 2:] <= cut[..., :2]).any(-1), 0.0, kind)
    return x, torch.cat([objects[..., :1], cut, kind[..., None]], -1)


def colour(x, amount):
    """Brightness, contrast, gamma, saturation, tint, and sometimes noise, for pictures in 0..1; `amount` as in `place`."""
    b = x.shape[0]
    # Each picture its own strength; two in five stay as they are.
    much = amount * (torch.rand((b, 1, 1, 1), device=x.device) < 0.6)
    r = lambda low, high, n=1: uniform(x, (b, n, 1, 1), low, high) * much
    x = x.clamp(1e-4, 1).pow(r(-0.25, 0.25).exp())
    grey = 0.299 * x[:, :1] + 0.587 * x[:, 1:2] + 0.114 * x[:, 2:]
    x = grey + (x - grey) * (1 + r(-0.4, 0.4))
    x = (x - 0.45) * (1 + r(-0.2, 0.25)) + 0.45 * (1 + r(-0.2, 0.2))
    x = x * (1 + r(-0.07, 0.07, 3))
    loud = (torch.rand((b, 1, 1, 1), device=x.device) < 0.3) * r(0, 0.03)
    return (x + torch.randn_like(x) * loud).clamp(0, 1)
