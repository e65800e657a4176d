"""The architecture of saltica-nano: anchor-free, three strides, box and class branches apart.

Channel counts are multiples of 16, so that NHWC kernels see whole vectors, and every operator is a plain one: Conv,
activation, MaxPool, nearest Resize, Concat, Add, and a decoding of Sigmoid, Exp, Mul and Add.
"""

import torch
import torch.nn.functional as F
from torch import nn

CLASSES = ["person", "bicycle", "car", "bus", "truck", "traffic light", "sign", "dog"]
STRIDES = (8, 16, 32)
SIZE = 480
ACTIVATIONS = {"silu": nn.SiLU, "relu": nn.ReLU}


class ConvAct(nn.Sequential):
    """Convolution, batch norm, activation. "Same" padding for odd kernels."""

    def __init__(self, cin, cout, kernel=1, stride=1, act="silu"):
        super().__init__(
            nn.Conv2d(cin, cout, kernel, stride, kernel // 2, bias=False),
            nn.BatchNorm2d(cout, eps=1e-3, momentum=0.03),
            ACTIVATIONS[act](inplace=True),
        )


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

    def __init__(self, cin, cout, depth, shortcut, act):
        super().__init__()
        half = cout // 2
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
    """One branch of the head at one stride: two 3x3 convolutions, then the prediction."""

    def __init__(self, cin, hidden, cout, act):
        super().__init__()
        self.a = ConvAct(cin, hidden, 3, act=act)
        self.b = ConvAct(hidden, hidden, 3, act=act)
        self.out = nn.Conv2d(hidden, cout, 1)

    def forward(self, x):
        return self.out(self.b(self.a(x)))


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
        self.c5 = nn.Sequential(
            ConvAct(96, 128, 3, 2, act), Stage(128, 128, 1, True, act), Pooling(128, act)
        )
        self.lateral5 = ConvAct(128, 64, act=act)
        self.up4 = Stage(64 + 96, 64, 1, False, act)
        self.up3 = Stage(64 + 64, 64, 1, False, act)
        self.down3 = ConvAct(64, 64, 3, 2, act)
        self.out4 = Stage(64 + 64, 64, 1, False, act)
        self.down4 = ConvAct(64, 64, 3, 2, act)
        self.out5 = Stage(64 + 64, 64, 1, False, act)
        self.boxes = nn.ModuleList(Branch(64, h, 4, act) for h in (48, 32, 32))
        self.scores = nn.ModuleList(Branch(64, h, classes, act) for h in (48, 32, 32))
        self.initialise()

    def initialise(self):
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
        for box, score in zip(self.boxes, self.scores):
            nn.init.normal_(box.out.weight, std=0.01)
            nn.init.zeros_(box.out.bias)
            nn.init.normal_(score.out.weight, std=0.01)
            # A prior of 1 %: the first steps are not spent on learning that most cells are background.
            nn.init.constant_(score.out.bias, -4.6)

    def forward(self, x):
        """Per stride `(boxes [B, 4, h, w], logits [B, classes, h, w])`.

        Boxes are offsets of the centre from the cell's middle in strides, and the logarithms of width and height in strides.
        """
        c3 = self.c3(self.stem(x))
        c4 = self.c4(c3)
        l5 = self.lateral5(self.c5(c4))
        p4 = self.up4(torch.cat([F.interpolate(l5, scale_factor=2.0, mode="nearest"), c4], 1))
        p3 = self.up3(torch.cat([F.interpolate(p4, scale_factor=2.0, mode="nearest"), c3], 1))
        p4 = self.out4(torch.cat([self.down3(p3), p4], 1))
        p5 = self.out5(torch.cat([self.down4(p4), l5], 1))
        return [(b(p), s(p)) for b, s, p in zip(self.boxes, self.scores, (p3, p4, p5))]


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
        self.counts = [(height // s) * (width // s) for s in STRIDES]
        middles, strides = cells(height, width)
        self.register_buffer("middles", middles.T[None].contiguous())
        self.register_buffer("strides", strides.T[None].contiguous())

    def forward(self, images):
        outputs = self.model(images)
        # The shapes are written as numbers, so that they are constants of the file.
        boxes = torch.cat([b.reshape(1, 4, n) for (b, _), n in zip(outputs, self.counts)], 2)
        logits = torch.cat([s.reshape(1, len(CLASSES), n) for (_, s), n in zip(outputs, self.counts)], 2)
        centre = boxes[:, :2] * self.strides + self.middles
        size = boxes[:, 2:].exp() * self.strides
        return torch.cat([centre, size, logits.sigmoid()], 1)


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


if __name__ == "__main__":
    m = SalticaNano()
    print(sum(p.numel() for p in m.parameters()), "parameters")
