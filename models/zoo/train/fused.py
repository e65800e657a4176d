"""Batch norm and SiLU in one pass each way, for training on a CUDA device: the step is bound by memory, not by arithmetic.

PyTorch reads and writes every map about twice as often. `ready` compares with it before the first use.
"""

import torch
import torch.nn.functional as F

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

if triton:

    @triton.jit
    def _sums(x, parts, rows, each, C: tl.constexpr, P2: tl.constexpr, TILE: tl.constexpr):
        """Sums and sums of squares of the channels over `each` lines of `[rows, C]`."""
        i, c = tl.program_id(0), tl.arange(0, P2)
        a, b = tl.zeros([TILE, P2], tl.float32), tl.zeros([TILE, P2], tl.float32)
        for k in range(0, each, TILE):
            r = i * each + k + tl.arange(0, TILE)
            mask = ((r < rows)[:, None]) & ((c < C)[None, :])
            v = tl.load(x + r[:, None] * C + c[None, :], mask, 0.0).to(tl.float32)
            a += v
            b += v * v
        tl.store(parts + i * 2 * C + c, tl.sum(a, 0), c < C)
        tl.store(parts + i * 2 * C + C + c, tl.sum(b, 0), c < C)

    @triton.jit
    def _finish(parts, count, rows, weight, bias, mean_r, var_r, momentum, eps, out, C: tl.constexpr, P2: tl.constexpr, TILE: tl.constexpr):
        """Scale, shift, mean and reciprocal deviation into `out [4, C]`; moves the running values."""
        c = tl.arange(0, P2)
        a, b = tl.zeros([TILE, P2], tl.float32), tl.zeros([TILE, P2], tl.float32)
        for k in range(0, count, TILE):
            i = k + tl.arange(0, TILE)
            mask = ((i < count)[:, None]) & ((c < C)[None, :])
            a += tl.load(parts + i[:, None] * 2 * C + c[None, :], mask, 0.0)
            b += tl.load(parts + i[:, None] * 2 * C + C + c[None, :], mask, 0.0)
        mean = tl.sum(a, 0) / rows
        var = tl.maximum(tl.sum(b, 0) / rows - mean * mean, 0.0)
        inverse = 1.0 / tl.sqrt(var + eps)
        m = c < C
        scale = tl.load(weight + c, m, 0.0) * inverse
        tl.store(out + c, scale, m)
        tl.store(out + C + c, tl.load(bias + c, m, 0.0) - mean * scale, m)
        tl.store(out + 2 * C + c, mean, m)
        tl.store(out + 3 * C + c, inverse, m)
        old = tl.load(mean_r + c, m, 0.0)
        tl.store(mean_r + c, old + momentum * (mean - old), m)
        old = tl.load(var_r + c, m, 0.0)
        tl.store(var_r + c, old + momentum * (var * rows / (rows - 1) - old), m)

    @triton.jit
    def _apply(x, values, y, rows, C: tl.constexpr, P2: tl.constexpr, TILE: tl.constexpr):
        c = tl.arange(0, P2)
        r = tl.program_id(0) * TILE + tl.arange(0, TILE)
        mask = ((r < rows)[:, None]) & ((c < C)[None, :])
        at = r[:, None] * C + c[None, :]
        z = tl.load(x + at, mask, 0.0).to(tl.float32) * tl.load(values + c, c < C, 0.0)[None, :]
        z += tl.load(values + C + c, c < C, 0.0)[None, :]
        tl.store(y + at, (z * tl.sigmoid(z)).to(y.dtype.element_ty), mask)

    @triton.jit
    def _back_sums(x, dy, step, values, parts, rows, each, C: tl.constexpr, P2: tl.constexpr, TILE: tl.constexpr):
        """Sums of the gradient before SiLU, and of it times the normalised input."""
        i, c = tl.program_id(0), tl.arange(0, P2)
        m = c < C
        scale, shift = tl.load(values + c, m, 0.0)[None, :], tl.load(values + C + c, m, 0.0)[None, :]
        mean, inverse = tl.load(values + 2 * C + c, m, 0.0)[None, :], tl.load(values + 3 * C + c, m, 0.0)[None, :]
        a, b = tl.zeros([TILE, P2], tl.float32), tl.zeros([TILE, P2], tl.float32)
        for k in range(0, each, TILE):
            r = i * each + k + tl.arange(0, TILE)
            mask = ((r < rows)[:, None]) & m[None, :]
            v = tl.load(x + r[:, None] * C + c[None, :], mask, 0.0).to(tl.float32)
            g = tl.load(dy + r[:, None] * step + c[None, :], mask, 0.0).to(tl.float32)
            z = v * scale + shift
            s = tl.sigmoid(z)
            g = g * s * (1.0 + z * (1.0 - s))
            a += g
            b += g * (v - mean) * inverse
        tl.store(parts + i * 2 * C + c, tl.sum(a, 0), m)
        tl.store(parts + i * 2 * C + C + c, tl.sum(b, 0), m)

    @triton.jit
    def _back_finish(parts, count, out, C: tl.constexpr, P2: tl.constexpr, TILE: tl.constexpr):
        c = tl.arange(0, P2)
        a, b = tl.zeros([TILE, P2], tl.float32), tl.zeros([TILE, P2], tl.float32)
        for k in range(0, count, TILE):
            i = k + tl.arange(0, TILE)
            mask = ((i < count)[:, None]) & ((c < C)[None, :])
            a += tl.load(parts + i[:, None] * 2 * C + c[None, :], mask, 0.0)
            b += tl.load(parts + i[:, None] * 2 * C + C + c[None, :], mask, 0.0)
        tl.store(out + c, tl.sum(a, 0), c < C)
        tl.store(out + C + c, tl.sum(b, 0), c < C)

    @triton.jit
    def _back_apply(x, dy, step, values, sums, dx, rows, C: tl.constexpr, P2: tl.constexpr, TILE: tl.constexpr):
        c = tl.arange(0, P2)
        m = c < C
        scale, shift = tl.load(values + c, m, 0.0)[None, :], tl.load(values + C + c, m, 0.0)[None, :]
        mean, inverse = tl.load(values + 2 * C + c, m, 0.0)[None, :], tl.load(values + 3 * C + c, m, 0.0)[None, :]
        one, two = tl.load(sums + c, m, 0.0)[None, :] / rows, tl.load(sums + C + c, m, 0.0)[None, :] / rows
        r = tl.program_id(0) * TILE + tl.arange(0, TILE)
        mask = ((r < rows)[:, None]) & m[None, :]
        v = tl.load(x + r[:, None] * C + c[None, :], mask, 0.0).to(tl.float32)
        g = tl.load(dy + r[:, None] * step + c[None, :], mask, 0.0).to(tl.float32)
        z = v * scale + shift
        s = tl.sigmoid(z)
        g = g * s * (1.0 + z * (1.0 - s))
        g = scale * (g - one - (v - mean) * inverse * two)
        tl.store(dx + r[:, None] * C + c[None, :], g.to(dx.dtype.element_ty), mask)


def _sizes(x):
    channels = x.shape[1]
    rows = x.numel() // channels
    power = triton.next_power_of_2(channels)
    tile = 2048 // power
    # Four programs a multiprocessor; what they leave is little enough for one to add up.
    programs = min(528, triton.cdiv(rows, 2 * tile))
    each = triton.cdiv(triton.cdiv(rows, programs), 2 * tile) * 2 * tile
    return channels, rows, power, tile, triton.cdiv(rows, each), each


class NormAct(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, mean, var, momentum, eps):
        x = x.contiguous(memory_format=torch.channels_last)
        c, rows, p2, tile, programs, each = _sizes(x)
        parts = torch.empty((programs, 2, c), device=x.device)
        values = torch.empty((4, c), device=x.device)
        y = torch.empty_like(x, memory_format=torch.channels_last)
        _sums[(programs,)](x, parts, rows, each, c, p2, 2 * tile, num_warps=8)
        _finish[(1,)](parts, programs, rows, weight, bias, mean, var, momentum, eps, values, c, p2, 4 * tile, num_warps=8)
        _apply[(triton.cdiv(rows, tile),)](x, values, y, rows, c, p2, tile)
        ctx.save_for_backward(x, values)
        return y

    @staticmethod
    def backward(ctx, dy):
        x, values = ctx.saved_tensors
        c, rows, p2, tile, programs, each = _sizes(x)
        n, _, h, w = x.shape
        step = dy.stride(3)
        # A slice of a wider map, as joined maps give back, is read where it lies.
        if dy.stride() != (h * w * step, 1, w * step, step) or step < c or step % 16:
            dy = dy.contiguous(memory_format=torch.channels_last)
            step = c
        parts = torch.empty((programs, 2, c), device=x.device)
        sums = torch.empty((2, c), device=x.device)
        dx = torch.empty_like(x, memory_format=torch.channels_last)
        _back_sums[(programs,)](x, dy, step, values, parts, rows, each, c, p2, 2 * tile, num_warps=8)
        _back_finish[(1,)](parts, programs, sums, c, p2, 4 * tile, num_warps=8)
        _back_apply[(triton.cdiv(rows, tile),)](x, dy, step, values, sums, dx, rows, c, p2, tile)
        return dx, sums[1].clone(), sums[0].clone(), None, None, None, None


def norm_act(x, norm):
    """SiLU of the batch norm `norm` in training, running values included."""
    return NormAct.apply(x, norm.weight, norm.bias, norm.running_mean, norm.running_var, float(norm.momentum), norm.eps)


def ready(device, channels=(16, 32, 48, 64, 96), size=(4, 17, 23), dtype=torch.bfloat16):
    """Whether the kernels run on `device` and agree with PyTorch in float32 within what `dtype` rounds."""
    for c in channels:
        torch.manual_seed(c)
        x = (torch.randn(size[0], c, *size[1:], device=device) * 2 + 0.5).to(dtype).contiguous(memory_format=torch.channels_last)
        wide = torch.randn(size[0], 2 * c, *size[1:], device=device).to(dtype).contiguous(memory_format=torch.channels_last)
        results = []
        for own in (True, False):
            norm = torch.nn.BatchNorm2d(c, eps=1e-3, momentum=0.03).to(device)
            with torch.no_grad():
                norm.weight.copy_(torch.linspace(0.5, 1.5, c))
                norm.bias.copy_(torch.linspace(-1, 1, c))
            t = x.detach().clone(memory_format=torch.channels_last).requires_grad_()
            y = norm_act(t, norm) if own else F.silu(norm(t.float()))
            y.backward(wide[:, c:].to(y.dtype))
            results.append([v.float() for v in (y, t.grad, norm.weight.grad, norm.bias.grad, norm.running_mean, norm.running_var)])
        for a, b in zip(*results):
            if not (a - b).norm() <= 0.01 * b.norm():
                return False
    return True
