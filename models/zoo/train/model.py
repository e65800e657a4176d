"""The architecture of saltica-nano: anchor-free, four strides, box and class branches apart.

Channel counts are multiples of 16, so that NHWC kernels see whole vectors, and every operator is a plain one: Conv,
activation, MaxPool, nearest Resize, Concat, Add, and a decoding of Slice, Sigmoid, Exp, Mul and Add.
"""

import torch
import torch.nn.functional as F
from torch import nn

CLASSES = ["person", "bicycle", "car", "bus", "truck", "traffic light", "sign", "dog"]
STRIDES = (4, 8, 16, 32)
SIZE = 480
ACTIVATIONS = {"silu": nn.SiLU, "relu": nn.ReLU}


class ConvAct(nn.Sequential):
    """Convolution, batch norm, activation. "Same" padding for odd kernels."""

    def __init__(self, cin, cout, kernel=1, stride=1, act="silu"):
        super().__init__(
            nn.Conv2d(cin, cout, kernel, stride, kernel // 2, bias=False),
            nn.BatchNorm2d(cout, eps=1e-3, momentum=0.03),
            ACTIVATIONS[act](),
        )

    # Training on a CUDA device sets this to `fused.norm_act`, which does the work of the last two at once.
    fused = None

    def forward(self, x):
        if self.fused and self.training:
            return self.fused(self[0](x), self[1])
        return super().forward(x)


class Bottleneck(nn.Module):
    """Two 3x3 convolutions, with a shortcut inside the backbone."""

    def __init__(self, channels, shortcut, act):
        super().__init__()
        self.a = ConvAct(channels, channels, 3, act=act)
        self.b = ConvAct(channels, channels, 3, act=act)
        self.shortcut = shortcut

    def forward(self, x):
        y = self.b(self.a(x))
        return x + y if self.shortcut else y


class Stage(nn.Module):
    """A cross-stage block: one half passes by, the other goes through `depth` bottlenecks, all halves are joined."""

    def __init__(self, cin, cout, depth, shortcut, act, half=None):
        super().__init__()
        half = half or cout // 2
        self.side = ConvAct(cin, half, act=act)
        self.main = ConvAct(cin, half, act=act)
        self.blocks = nn.ModuleList(Bottleneck(half, shortcut, act) for _ in range(depth))
        self.join = ConvAct((2 + depth) * half, cout, act=act)

    def forward(self, x):
        parts = [self.side(x), self.main(x)]
        for block in self.blocks:
            parts.append(block(parts[-1]))
        return self.join(torch.cat(parts, 1))


class Pooling(nn.Module):
    """Three 5x5 max pools in a row, joined: context of 5, 9 and 13 cells."""

    def __init__(self, channels, act):
        super().__init__()
        half = channels // 2
        self.squeeze = ConvAct(channels, half, act=act)
        self.join = ConvAct(4 * half, channels, act=act)

    def forward(self, x):
        parts = [self.squeeze(x)]
        for _ in range(3):
            parts.append(F.max_pool2d(parts[-1], 5, 1, 2))
        return self.join(torch.cat(parts, 1))


class Branch(nn.Module):
    """One branch of the head at one stride: `depth` 3x3 convolutions, then the prediction."""

    def __init__(self, cin, hidden, cout, depth, act):
        super().__init__()
        self.body = nn.Sequential(*(ConvAct(hidden if k else cin, hidden, 3, act=act) for k in range(depth)))
        self.out = nn.Conv2d(hidden, cout, 1)

    def forward(self, x):
        x = self.body(x)
        if x.dtype == torch.float32:
            return self.out(x)
        # A logarithm of a size with the eight bits of bfloat16 is off by a percent of the box.
        with torch.autocast(x.device.type, enabled=False):
            return self.out(x.float())


class SalticaNano(nn.Module):
    """`[B, 3, H, W]` RGB in 0..1, H and W multiples of 32. See `forward` and `Exported` for what comes out."""

    def __init__(self, classes=len(CLASSES), act="silu"):
        super().__init__()
        self.stem = nn.Sequential(
            ConvAct(3, 16, 3, 2, act),
            ConvAct(16, 32, 3, 2, act),
            Stage(32, 32, 2, True, act),
        )
        self.c3 = nn.Sequential(ConvAct(32, 64, 3, 2, act), Stage(64, 64, 2, True, act))
        self.c4 = nn.Sequential(ConvAct(64, 96, 3, 2, act), Stage(96, 96, 2, True, act))
        self.c5 = nn.Sequential(ConvAct(96, 96, 3, 2, act), Stage(96, 96, 1, True, act), Pooling(96, act))
        self.lateral5 = ConvAct(96, 64, act=act)
        self.up4 = Stage(64 + 96, 64, 1, False, act)
        self.up3 = Stage(64 + 64, 64, 1, False, act)
        self.lateral3 = ConvAct(64, 32, act=act)
        self.up2 = Stage(32 + 32, 32, 1, False, act, half=32)
        self.down2 = ConvAct(32, 64, 3, 2, act)
        self.out3 = Stage(64 + 64, 64, 1, False, act)
        self.down3 = ConvAct(64, 64, 3, 2, act)
        self.out4 = Stage(64 + 64, 64, 1, False, act)
        self.down4 = ConvAct(64, 64, 3, 2, act)
        self.out5 = Stage(64 + 64, 64, 1, False, act)
        # Channels, hidden channels, and depths of the two branches at every stride: one layer finds the sides of small boxes.
        heads = ((32, 32, 1, 2), (64, 48, 2, 2), (64, 32, 2, 2), (64, 32, 2, 2))
        self.boxes = nn.ModuleList(Branch(c, h, 4, d, act) for c, h, d, _ in heads)
        self.scores = nn.ModuleList(Branch(c, h, classes, d, act) for c, h, _, d in heads)
        self.initialise()

    def initialise(self):
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
        # Priors of 0.1 to 1 %, less where there are more cells: the first steps are not spent on learning that most of
        # them are background.
        for box, score, prior in zip(self.boxes, self.scores, (-7.0, -6.0, -5.0, -4.6)):
            nn.init.normal_(box.out.weight, std=0.01)
            nn.init.zeros_(box.out.bias)
            nn.init.normal_(score.out.weight, std=0.01)
            nn.init.constant_(score.out.bias, prior)

    def forward(self, x):
        """Per stride `(boxes [B, 4, h, w], logits [B, classes, h, w])`.

        Boxes are offsets of the centre from the cell's middle in strides, and the logarithms of width and height in strides.
        """
        twice = lambda t: F.interpolate(t, scale_factor=2.0, mode="nearest")
        c2 = self.stem(x)
        c3 = self.c3(c2)
        c4 = self.c4(c3)
        l5 = self.lateral5(self.c5(c4))
        p4 = self.up4(torch.cat([twice(l5), c4], 1))
        p3 = self.up3(torch.cat([twice(p4), c3], 1))
        p2 = self.up2(torch.cat([twice(self.lateral3(p3)), c2], 1))
        p3 = self.out3(torch.cat([self.down2(p2), p3], 1))
        p4 = self.out4(torch.cat([self.down3(p3), p4], 1))
        p5 = self.out5(torch.cat([self.down4(p4), l5], 1))
        return [(b(p), s(p)) for b, s, p in zip(self.boxes, self.scores, (p2, p3, p4, p5))]


def cells(height, width, device=None):
    """Middles `[N, 2]` and strides `[N, 1]` of all cells, in pixels."""
    middles, strides = [], []
    for s in STRIDES:
        y, x = torch.meshgrid(
            torch.arange(height // s, device=device), torch.arange(width // s, device=device), indexing="ij"
        )
        middles.append((torch.stack([x, y], -1).reshape(-1, 2).float() + 0.5) * s)
        strides.append(torch.full((middles[-1].shape[0], 1), float(s), device=device))
    return torch.cat(middles), torch.cat(strides)


def flatten(outputs):
    """Raw boxes `[B, N, 4]` and logits `[B, N, classes]` of all strides, in float32."""
    boxes = torch.cat([b.flatten(2) for b, _ in outputs], 2).transpose(1, 2).float()
    logits = torch.cat([s.flatten(2) for _, s in outputs], 2).transpose(1, 2).float()
    return boxes, logits


def decode(raw, middles, strides):
    """Raw boxes to `[.., 4]` corners `x0, y0, x1, y1` in pixels."""
    centre = middles + raw[..., :2] * strides
    half = 0.5 * strides * raw[..., 2:].clamp(max=5.0).exp()
    return torch.cat([centre - half, centre + half], -1)


class Exported(nn.Module):
    """What the ONNX file computes: `[1, 4 + classes, N]`, centre and size in input pixels, then the scores."""

    def __init__(self, model, height=SIZE, width=SIZE):
        super().__init__()
        self.model = model
        self.maps = [(height // s, width // s, s) for s in STRIDES]
        for h, w, s in self.maps:
            # The middles of columns and lines apart: a few hundred numbers instead of two for every cell.
            x, y = (torch.arange(w) + 0.5) * s, (torch.arange(h) + 0.5) * s
            self.register_buffer(f"columns{s}", torch.stack([x, torch.zeros(w)])[None, :, None, :])
            self.register_buffer(f"lines{s}", torch.stack([torch.zeros(h), y])[None, :, :, None])

    def forward(self, images):
        levels = []
        for (box, score), (h, w, s) in zip(self.model(images), self.maps):
            centre = box[:, :2] * float(s) + getattr(self, f"columns{s}") + getattr(self, f"lines{s}")
            size = box[:, 2:].exp() * float(s)
            # The shapes are written as numbers, so that they are constants of the file.
            levels.append(torch.cat([centre, size, score.sigmoid()], 1).reshape(1, 4 + len(CLASSES), h * w))
        return torch.cat(levels, 2)


def fold(model):
    """Folds every batch norm into its convolution, in place."""
    for m in model.modules():
        if isinstance(m, ConvAct):
            conv, norm = m[0], m[1]
            scale = norm.weight / (norm.running_var + norm.eps).sqrt()
            fused = nn.Conv2d(
                conv.in_channels, conv.out_channels, conv.kernel_size, conv.stride, conv.padding, bias=True
            )
            fused.weight.data = conv.weight.data * scale[:, None, None, None]
            fused.bias.data = norm.bias.data - norm.running_mean * scale
            m[0], m[1] = fused, nn.Identity()
    return model


def multiplications(model, height=SIZE, width=SIZE):
    """Multiply-accumulates of all convolutions for one picture."""
    total, hooks = [0], []

    def count(conv, _, out):
        total[0] += out[0].numel() * conv.weight[0].numel()

    for m in model.modules():
        if isinstance(m, nn.Conv2d):
            hooks.append(m.register_forward_hook(count))
    with torch.no_grad():
        model.eval()(torch.zeros(1, 3, height, width))
    for h in hooks:
        h.remove()
    return total[0]


if __name__ == "__main__":
    m = SalticaNano()
    print(f"{sum(p.numel() for p in m.parameters())} parameters, {multiplications(m) / 1e9:.2f} GMAC")
