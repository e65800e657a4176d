"""Checks and times the kernels of this folder on a GPU, against PyTorch in higher precision.

    python3 bench.py CUBIN_DIR GROUP[,GROUP...] [--dry | --emulate] [--out DIR]

CUBIN_DIR holds UNIT.cubin for each unit, built for the GPU at hand. Inputs are fresh random numbers, outputs are poisoned before
each run and what lies around them must keep its poison. `--dry` runs everything but the kernels, to check this file; `--emulate` runs the kernels on the CPU (emulate/emulate.hpp).
"""
import ctypes, math, os, re, statistics, sys, time, traceback
import numpy as np
import torch
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
DRY = "--dry" in sys.argv
EMU = "--emulate" in sys.argv  # run the kernels on the CPU (emulate/), checks only
DEV = "cpu" if DRY or EMU else "cuda"
ONLY = os.environ.get("ONLY", "")  # families with this in their names
OUT = sys.argv[sys.argv.index("--out") + 1] if "--out" in sys.argv else "/tmp"
LOG = open(os.path.join(OUT, f"bench_{sys.argv[2].replace(',', '_')}.log"), "w")

def say(*a):
    print(*a, flush=True)
    print(*a, file=LOG, flush=True)

def note(*a):
    print(*a, file=LOG, flush=True)

# ---- the structs, read from params.cuh ----

CT = {"u64": ctypes.c_uint64, "i32": ctypes.c_int32, "u32": ctypes.c_uint32, "f32": ctypes.c_float, "i64": ctypes.c_int64}

def structs():
    text = re.sub(r"//[^\n]*", "", open(os.path.join(HERE, "params.cuh")).read())
    made = {}
    for name, body in re.findall(r"struct (\w+) \{(.*?)\};", text, re.S):
        fields = []
        for decl in body.split(";"):
            decl = decl.strip()
            if not decl:
                continue
            typ, names = re.match(r"(?:struct )?(\w+) (.*)", decl, re.S).groups()
            t = CT.get(typ) or made[typ]
            for n in names.split(","):
                n = n.strip()
                m = re.match(r"(\w+)\[(\d+)\]", n)
                fields.append((m[1], t * int(m[2])) if m else (n, t))
        made[name] = type(name, (ctypes.Structure,), {"_fields_": fields})
    return made

S = structs()
DT = {torch.float32: 0, torch.float16: 1, torch.float64: 2, torch.int8: 3, torch.uint8: 4, torch.int32: 5, torch.int64: 6, torch.bool: 7}
ACTS = {"none": 0, "relu": 1, "leaky": 2, "clip": 3, "sigmoid": 4, "silu": 5, "hardsigmoid": 6, "hardswish": 7, "tanh": 8}

# ---- driver ----

class Driver:
    def __init__(self, folder):
        self.folder, self.modules, self.functions = folder, {}, {}
        if EMU:
            import emulate
            self.emulate = emulate
        elif not DRY:
            torch.zeros(1, device="cuda")
            self.cu = ctypes.CDLL("libcuda.so.1")

        self.sms = 3 if DRY or EMU else torch.cuda.get_device_properties(0).multi_processor_count

    def occupancy(self, v):
        if DRY or EMU:
            return 2
        if not hasattr(v, "occ"):
            n = ctypes.c_int()
            self.check(self.cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(ctypes.byref(n), self.function(v.unit, v.name, v.shared), v.threads, ctypes.c_size_t(v.shared)), "occupancy")
            v.occ = n.value
        return v.occ

    def check(self, rc, what):
        if rc:
            raise RuntimeError(f"{what}: CUDA error {rc}")

    def function(self, unit, name, shared):
        if DRY:
            return None
        key = (unit, name)
        if key not in self.functions:
            if unit not in self.modules:
                m = ctypes.c_void_p()
                path = os.path.join(self.folder, unit)
                data = open(path + ".cubin", "rb").read() if os.path.exists(path + ".cubin") else open(path + ".ptx", "rb").read() + b"\0"
                self.check(self.cu.cuModuleLoadData(ctypes.byref(m), data), "load " + unit)
                self.modules[unit] = m
            f = ctypes.c_void_p()
            self.check(self.cu.cuModuleGetFunction(ctypes.byref(f), self.modules[unit], name.encode()), name)
            if shared > 48 * 1024:
                self.check(self.cu.cuFuncSetAttribute(f, 8, shared), "shared memory of " + name)
            self.functions[key] = f
        return self.functions[key]

    class Attr(ctypes.Structure):
        _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_int), ("rest", ctypes.c_byte * 60)]

    class Config(ctypes.Structure):
        _fields_ = [("g", ctypes.c_uint * 3), ("b", ctypes.c_uint * 3), ("shared", ctypes.c_uint), ("stream", ctypes.c_void_p),
                    ("attrs", ctypes.c_void_p), ("n", ctypes.c_uint)]

    def launch(self, unit, name, params, grid, block, shared=0, pdl=False):
        if EMU:
            return self.emulate.launch(unit, name, params, tuple(grid) + (1,) * (3 - len(grid)), block)
        f = self.function(unit, name, shared)
        if DRY:
            return
        args = (ctypes.c_void_p * 1)(ctypes.addressof(params))
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        g = tuple(grid) + (1,) * (3 - len(grid))
        if not pdl:
            self.check(self.cu.cuLaunchKernel(f, *g, block, 1, 1, shared, stream, args, None), f"launch {name}")
            return
        attr = self.Attr(6, 0, 1)
        c = self.Config((ctypes.c_uint * 3)(*g), (ctypes.c_uint * 3)(block, 1, 1), shared, stream, ctypes.addressof(attr), 1)
        self.check(self.cu.cuLaunchKernelEx(ctypes.byref(c), f, args, None), f"launch {name}")

D = Driver(sys.argv[1])

def sync():
    if DEV == "cuda":
        torch.cuda.synchronize()

class Variant:
    def __init__(self, line):
        self.name, self.unit, self.struct, *rest = line.split("\t")
        self.bm, self.bn, self.bk, self.wk, self.threads, self.shared = map(int, rest)
        self.family = re.match(r"(\w+?)_\d+x\d+", self.name)[1]

VARIANTS = [Variant(l) for l in open(os.path.join(HERE, "variants.tsv")).read().splitlines() if l and l[0] != "#"]
BY_NAME = {v.name: v for v in VARIANTS}

def graph_us(launches, replays=5, rounds=3):
    """Median microseconds of one call of `launches`, captured once, replayed; events around the replays."""
    if DEV == "cpu":
        launches()
        return 1.0
    s = torch.cuda.Stream()
    s.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(s):
        launches()
    torch.cuda.current_stream().wait_stream(s)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        launches()
    g.replay()
    ts = []
    for _ in range(rounds):
        a, b = torch.cuda.Event(True), torch.cuda.Event(True)
        a.record()
        for _ in range(replays):
            g.replay()
        b.record()
        b.synchronize()
        ts.append(a.elapsed_time(b) * 1000 / replays)
    return statistics.median(ts)

# ---- convolution ----

UNIT_CH = {"f16": 8, "i8": 16}

def pad_to(n, m):
    return (n + m - 1) // m * m

class View:
    """An NHWC tensor of c channels inside a buffer with `pix` channels a pixel, starting at channel `off`."""
    def __init__(self, n, h, w, c, dtype, pix=None, off=0, buf=None):
        self.n, self.h, self.w, self.c, self.off = n, h, w, c, off
        self.pix = pix or c
        if buf is None:
            buf = torch.zeros(n, h, w, self.pix, dtype=dtype, device=DEV)
        self.buf = buf

    def slice(self, off, c):
        return View(self.n, self.h, self.w, c, None, self.pix, self.off + off, self.buf)

    def ptr(self):
        return self.buf.data_ptr() + self.off * self.buf.element_size()

    def t(self):
        return self.buf[..., self.off:self.off + self.c]

def pack(w, unit, c4=False):
    """[o, c, kh, kw] to [o][kh*kw][c padded]."""
    o, c, kh, kw = w.shape
    p = torch.zeros(o, kh * kw, 4 if c4 else pad_to(c, unit), dtype=w.dtype, device=w.device)
    p[:, :, :c] = w.permute(0, 2, 3, 1).reshape(o, kh * kw, c)
    if c4:
        q = torch.zeros(o, pad_to(kh * kw * 4, unit), dtype=w.dtype, device=w.device)
        q[:, :kh * kw * 4] = p.reshape(o, -1)
        return q.contiguous()
    return p.contiguous()

class ConvCall:
    """One convolution with its operands on the device."""
    def __init__(self, x, y, w, k=(1, 1), s=(1, 1), pad=(0, 0), d=(1, 1), bias=None, act="none", a=0.0, b=0.0, res=None, res_mode=0, out=None, x2=None, up=0,
                 h=None, wd=None, cin=None, quant=None, groups=1):
        self.keep = (x, y, w, bias, res, x2, quant)
        p = S["ConvParams"]()
        es = x.buf.element_size()
        p.x, p.w, p.y = x.ptr(), w.data_ptr(), y.ptr()
        p.bias = bias.data_ptr() if bias is not None else 0
        p.batch, p.h, p.wd = x.n, h or x.h, wd or x.w
        p.cin = cin if cin is not None else x.c + (x2.c if x2 else 0)
        p.oh, p.ow, p.cout, p.groups = y.h, y.w, y.c, groups
        p.kh, p.kw = k
        p.sy, p.sx = s
        p.py, p.px = pad
        p.dy, p.dx = d
        p.x_pix, p.x_row, p.x_img, p.x_ch = x.pix, x.pix * x.w, x.pix * x.w * x.h, 1
        p.y_pix, p.y_img = y.pix, y.pix * y.w * y.h
        if res is not None:
            p.res, p.r_pix, p.r_img, p.res_mode = res.ptr(), res.pix, res.pix * res.w * res.h, res_mode
        if x2 is not None:
            p.x2, p.x2_pix, p.x2_row, p.x2_img, p.cin1, p.up = x2.ptr(), x2.pix, x2.pix * x2.w, x2.pix * x2.w * x2.h, x.c, up
        p.act, p.act_a, p.act_b = ACTS[act], a, b
        p.out_dtype = DT[y.buf.dtype]
        p.splits = 1
        if quant:
            p.mul = quant["mul"].data_ptr()
            p.fbias = quant["fbias"].data_ptr() if quant.get("fbias") is not None else 0
            p.table = quant["table"].data_ptr() if quant.get("table") is not None else 0
            p.pad = quant["pad"].data_ptr()
            p.x_xor = quant.get("xor", 0)
            p.q_scale, p.q_zero = quant.get("scale", 1.0), quant.get("zero", 0)
            p.x_zero, p.w_zero = quant.get("x_zero", 0), quant.get("w_zero", 0)
        self.p = p
        self.m = y.n * y.h * y.w
        self.kb = w.numel() // w.shape[0]

    def tiles(self, v):
        p = self.p
        if v.family.startswith("conv1"):
            return min(-(-self.m // v.bm), D.sms * D.occupancy(v))
        if v.family.startswith("conv3"):
            return p.batch * -(-p.oh // (v.bm // 8)) * -(-p.ow // 8) * -(-p.cout // v.bn)
        if "stem" in v.family:
            return p.batch * -(-p.oh // (v.bm // 16)) * -(-p.ow // 16)
        return -(-self.m // v.bm) * -(-p.cout // v.bn)

    def run(self, v, splits=1, ws=None, sem=None, pdl=False, batch=None):
        p = self.p
        tiles = self.tiles(v)
        p.splits = splits
        if splits > 1:
            assert ws.numel() * 4 >= splits * tiles * v.bm * v.bn * 4 and sem.numel() >= tiles
            p.ws, p.sem = ws.data_ptr(), sem.data_ptr()
        y = -(-p.cout // v.bn) if "stem" in v.family or "conv1" in v.family else splits
        D.launch(v.unit, v.name, p, (tiles, y), v.threads, v.shared, pdl)

def act_ref(x, act, a=0.0, b=0.0):
    return {"none": lambda: x, "relu": lambda: x.clamp(min=0), "leaky": lambda: torch.where(x >= 0, x, a * x), "clip": lambda: x.clamp(a, b),
            "sigmoid": lambda: torch.sigmoid(x), "silu": lambda: x * torch.sigmoid(x), "hardsigmoid": lambda: (a * x + b).clamp(0, 1),
            "hardswish": lambda: x * (x / 6 + 0.5).clamp(0, 1), "tanh": lambda: torch.tanh(x)}[act]()

POISON = {torch.float16: float("nan"), torch.float32: float("nan"), torch.int8: 77, torch.uint8: 77}

def poisoned(n, h, w, c, dtype, pix, off):
    v = View(n, h, w, c, dtype, pix, off)
    v.buf.fill_(POISON[dtype])
    return v

def around_kept(v):
    t = v.buf.clone()
    keep = torch.cat([t[..., :v.off], t[..., v.off + v.c:]], -1)
    return bool(torch.isnan(keep.float()).all()) if v.buf.dtype.is_floating_point else bool((keep == 77).all())

def conv_out(i, k, s, p, d):
    return (i + 2 * p - d * (k - 1) - 1) // s + 1

def f16_cases():
    # n, h, w, cin, cout, k, s, p, d, act, res, out dtype, (x pix, off), (y pix, off)
    h, f = torch.float16, torch.float32
    return [
        (2, 13, 11, 16, 32, 3, 1, 1, 1, "silu", 0, h, (16, 0), (32, 0)),
        (1, 20, 20, 128, 128, 3, 1, 1, 1, "silu", 2, h, (256, 128), (384, 256)),
        (3, 17, 19, 24, 80, 3, 2, 1, 1, "relu", 1, h, (40, 8), (96, 16)),
        (2, 9, 9, 48, 144, 1, 1, 0, 1, "leaky", 0, h, (48, 0), (144, 0)),
        (1, 12, 15, 8, 21, 5, 1, 2, 2, "hardswish", 0, h, (8, 0), (21, 0)),
        (2, 10, 10, 64, 65, 1, 1, 0, 1, "none", 0, f, (64, 0), (65, 0)),
        (1, 8, 8, 512, 256, 1, 1, 0, 1, "clip", 0, h, (512, 0), (256, 0)),
        (1, 16, 16, 40, 64, (1, 7), 1, (0, 3), 1, "tanh", 1, f, (40, 0), (64, 0)),
        (5, 7, 5, 72, 33, 2, 2, 0, 1, "sigmoid", 2, h, (72, 0), (40, 4)),
    ]

def extra_cases(fam):
    h, f = torch.float16, torch.float32
    if fam.startswith("conv1"):
        return [(2, 13, 11, 16, 32, 1, 1, 0, 1, "silu", 0, h, (16, 0), (32, 0)), (1, 20, 20, 128, 128, 1, 1, 0, 1, "silu", 0, h, (256, 128), (384, 256)),
                (3, 17, 19, 48, 80, 1, 1, 0, 1, "relu", 0, h, (64, 16), (96, 16)), (5, 31, 29, 32, 144, 1, 1, 0, 1, "none", 0, h, (32, 0), (144, 0)),
                (1, 80, 80, 96, 64, 1, 1, 0, 1, "leaky", 0, h, (96, 0), (64, 0)), (2, 40, 40, 192, 64, 1, 1, 0, 1, "tanh", 0, h, (192, 0), (64, 0))]
    if fam.startswith("conv3"):
        s = 2 if "s2" in fam else 1
        return [
            (2, 13, 11, 16, 32, 3, s, 1, 1, "silu", 0, h, (16, 0), (32, 0)),
            (1, 20, 20, 128, 128, 3, s, 1, 1, "silu", 2, h, (256, 128), (384, 256)),
            (3, 17, 19, 24, 80, 3, s, 1, 1, "relu", 1, h, (40, 8), (96, 16)),
            (2, 40, 33, 80, 144, 3, s, 1, 1, "leaky", 0, h, (80, 0), (144, 0)),
            (1, 5, 3, 8, 21, 3, s, 1, 1, "hardswish", 0, h, (8, 0), (21, 0)),
            (2, 10, 10, 64, 65, 3, s, (0, 2), 1, "none", 1, f, (64, 0), (65, 0)),
            (2, 32, 24, 32, 64, 3, s, 1, 1, "silu", 2, h, (64, 32), (64, 0)),
        ]
    k, p = (3, 1) if "3" in fam else (6, 2)
    return [(2, 64, 48, 3, 16, k, 2, p, 1, "silu", 0, h, (4, 0), (16, 0)), (1, 37, 75, 3, 21, k, 2, p, 1, "relu", 0, h, (4, 0), (32, 8)),
            (3, 18, 22, 3, 64, k, 2, 0, 1, "none", 0, f, (4, 0), (64, 0)), (1, 33, 31, 3, 48, k, 2, p, 1, "leaky", 0, h, (4, 0), (50, 0))]

def extra_i8(fam):
    i, u, f, h = torch.int8, torch.uint8, torch.float32, torch.float16
    if fam.startswith("conv1"):
        return [(2, 13, 11, 16, 32, 1, 1, 0, 1, "none", i, i, 0, 0, 0.25, False, False, (16, 0), (32, 0)),
                (1, 20, 20, 128, 128, 1, 1, 0, 1, "relu", u, i, 7, -128, 0.0371, True, False, (256, 128), (384, 256)),
                (3, 17, 19, 48, 80, 1, 1, 0, 1, "leaky", u, u, 128, 120, 0.05, False, True, (64, 16), (96, 16)),
                (2, 40, 40, 192, 64, 1, 1, 0, 1, "hardswish", i, i, 3, 5, 0.013, False, True, (192, 0), (64, 0))]
    if fam.startswith("conv3"):
        s = 2 if "s2" in fam else 1
        return [(2, 13, 11, 16, 32, 3, s, 1, 1, "none", i, i, 0, 0, 0.25, False, False, (16, 0), (32, 0)),
                (1, 20, 20, 128, 128, 3, s, 1, 1, "relu", i, i, -7, -128, 0.0371, False, False, (256, 128), (384, 256)),
                (3, 17, 19, 48, 80, 3, s, 1, 1, "leaky", u, u, 128, 120, 0.05, True, False, (64, 16), (96, 16)),
                (2, 9, 9, 80, 144, 3, s, 1, 1, "clip", u, i, 3, 5, 0.013, False, True, (80, 0), (144, 0)),
                (1, 8, 8, 64, 65, 3, s, 1, 1, "relu", i, h, 0, 0, None, False, False, (64, 0), (65, 0))]
    k, p = (3, 1) if "3" in fam else (6, 2)
    return [(2, 64, 48, 3, 16, k, 2, p, 1, "none", u, i, 128, 0, 0.25, False, False, (4, 0), (16, 0)),
            (1, 37, 75, 3, 21, k, 2, p, 1, "leaky", i, u, -5, 7, 0.031, True, True, (4, 0), (32, 8)),
            (3, 18, 22, 3, 64, k, 2, 0, 1, "relu", u, f, 3, 0, None, False, False, (4, 0), (64, 0))]

def two(v):
    return v if isinstance(v, tuple) else (v, v)

def workspace():
    return torch.zeros(1 << (26 if DEV == "cuda" else 22), dtype=torch.int32, device=DEV), torch.zeros(1 << 16, dtype=torch.int32, device=DEV)

def rel(out, ref):
    d = (out.double() - ref.double()).norm() / ref.double().norm().clamp(min=1e-30)
    return float(d)

def check_conv_f16():
    ws, sem = workspace()
    g = torch.Generator(device=DEV).manual_seed(int(time.time()))
    R = lambda *s: torch.randn(*s, generator=g, device=DEV)
    worst, bad, ran = {}, 0, 0
    for fam in ("conv_f16", "conv72_f16", "conv_f16c4", "conv1_f16", "conv3_f16", "conv3s2_f16", "conv_stem3_f16", "conv_stem6_f16"):
        if ONLY not in fam: continue
        for case in f16_cases() if fam in ("conv_f16", "conv_f16c4", "conv72_f16") else extra_cases(fam):
            n, h, w, cin, cout, k, s, p, d, act, res, od, (xp, xo), (yp, yo) = case
            k, s, p, d = map(two, (k, s, p, d))
            c4 = fam == "conv_f16c4" or "stem" in fam
            if c4:
                cin, xp, xo = 3, 4, 0
            oh, ow = conv_out(h, k[0], s[0], p[0], d[0]), conv_out(w, k[1], s[1], p[1], d[1])
            x = View(n, h, w, 4 if c4 else cin, torch.float16, xp, xo)
            x.buf.copy_(R(n, h, w, xp).half())
            wt = (R(cout, cin, *k) / math.sqrt(cin * k[0] * k[1])).half()
            bias = R(cout).float()
            r = View(n, oh, ow, cout, od, cout, 0)
            r.buf.copy_(R(n, oh, ow, cout))
            ref = F.conv2d(x.t()[..., :cin].permute(0, 3, 1, 2).double(), wt.double(), bias.double(), s, p, d).permute(0, 2, 3, 1)
            if res == 1: ref = ref + r.t().double()
            ref = act_ref(ref, act, 0.1 if act == "leaky" else -0.5, 1.5)
            if res == 2: ref = ref + r.t().double()
            pw = pack(wt, 8, c4)
            by_sig = {}
            for v in VARIANTS:
                if v.family != fam or (v.name.endswith("_one") or fam == "conv1_f16") and cin > v.bk: continue
                steps = -(-(pw.numel() // cout) // v.bk)
                for splits in (1, 2, 3, 7):
                    if splits > steps or splits > 1 and v.wk == 1: continue
                    y = poisoned(n, oh, ow, cout, od, yp, yo)
                    try:
                        ConvCall(x, y, pw, k, s, p, d, bias, act, 0.1 if act == "leaky" else -0.5, 1.5, r if res else None, res, cin=x.c).run(v, splits, ws, sem)
                        sync()
                    except Exception as e:
                        say("FAIL", v.name, case, e); raise
                    ran += 1
                    e = rel(y.t(), ref)
                    worst[v.name] = max(worst.get(v.name, 0), e if e == e else 9e9)
                    sig = (v.bk if v.wk > 1 or splits > 1 or "conv3" in fam else 0, v.wk, splits)
                    same = by_sig.setdefault(sig, y.t().clone())
                    ok = e < (6e-4 if od == torch.float16 else 5e-6) and around_kept(y) and torch.equal(same, y.t()) and int(sem.abs().sum()) == 0
                    if not ok and not DRY:
                        bad += 1
                        if bad < 40: say("BAD", v.name, "splits", splits, case, "rel", e, "around", around_kept(y), "same", torch.equal(same, y.t()))
    for kname, e in worst.items(): note(f"{kname:40s} worst rel {e:.2e}")
    say(f"conv f16: {ran} runs of {len(worst)} kernels, worst rel {max(worst.values()):.2e}, bad {bad}")

def check_conv_cat():
    ws, sem = workspace()
    bad = ran = 0
    for up in (0, 1):
        for (n, h, w, c1, c2, cout) in ((2, 20, 12, 32, 16, 48), (1, 14, 14, 256, 128, 128), (3, 6, 6, 8, 24, 30)):
            a = View(n, h >> up, w >> up, c1, torch.float16, c1 + 8, 8); a.buf.copy_(torch.randn(a.buf.shape, device=DEV))
            b = View(n, h, w, c2, torch.float16, c2, 0); b.buf.copy_(torch.randn(b.buf.shape, device=DEV))
            wt = (torch.randn(cout, c1 + c2, 1, 1, device=DEV) / math.sqrt(c1 + c2)).half()
            bias = torch.randn(cout, device=DEV)
            xa = a.t().permute(0, 3, 1, 2).double()
            if up: xa = F.interpolate(xa, scale_factor=2, mode="nearest")
            ref = F.silu(F.conv2d(torch.cat([xa, b.t().permute(0, 3, 1, 2).double()], 1), wt.double(), bias.double())).permute(0, 2, 3, 1)
            for v in VARIANTS:
                if v.family != "conv_f16cat": continue
                for splits in (1, 2):
                    if splits > -(-(c1 + c2) // v.bk) or splits > 1 and v.wk == 1: continue
                    y = poisoned(n, h, w, cout, torch.float16, cout, 0)
                    ConvCall(a, y, pack(wt, 8), bias=bias, act="silu", x2=b, up=up, h=h, wd=w).run(v, splits, ws, sem); sync(); ran += 1
                    e = rel(y.t(), ref)
                    if not e < 6e-4 and not DRY:
                        bad += 1; say("BAD", v.name, up, n, h, w, c1, c2, cout, splits, e)
    say(f"conv f16 two sources: {ran} runs, bad {bad}")

def quant_ref(x, w, x_zero, bias, mul, fbias, act, a, b, scale, zero, lo, hi, table, k, s, p, d, groups=1, w_zero=0):
    """QuantConv's definition in numpy. x [n,h,w,c], w [o,c,kh,kw] on the CPU."""
    xx = (x.cpu().double() - x_zero).permute(0, 3, 1, 2)
    acc = F.conv2d(xx, w.cpu().double() - w_zero, None, s, p, d, groups).permute(0, 2, 3, 1).numpy().astype(np.int64)
    acc = (acc + bias.cpu().numpy().astype(np.int64)).astype(np.int32)
    r = acc.astype(np.float32) * mul.cpu().numpy()
    if fbias is not None: r = r + fbias.cpu().numpy()
    f = np.float32
    if act == "relu": r = np.where(r < 0, f(0), r)
    elif act == "leaky": r = np.where(r >= 0, r, f(a) * r)
    elif act == "clip": r = np.minimum(np.maximum(r, f(a)), f(b))
    elif act == "hardswish": r = r * np.clip(r / f(6) + f(0.5), f(0), f(1))
    elif act == "hardsigmoid": r = np.clip(f(a) * r + f(b), f(0), f(1))
    r = r.astype(np.float32)
    if scale is None: return r
    q = np.rint(np.minimum(np.maximum(r / f(scale), f(lo - zero)), f(hi - zero))).astype(np.int32) + zero
    if table is not None: q = table.cpu().numpy()[q & 255].astype(np.int32)
    return q

def i8_cases():
    i, u, f, h = torch.int8, torch.uint8, torch.float32, torch.float16
    # n,h,w,cin,cout,k,s,p,d,act,x dtype,out dtype,x_zero,zero,scale,table,fbias,(x pix,off),(y pix,off)
    return [
        (2, 13, 11, 16, 32, 3, 1, 1, 1, "none", i, i, 0, 0, 0.25, False, False, (16, 0), (32, 0)),
        (1, 20, 20, 128, 128, 3, 1, 1, 1, "relu", i, i, -7, -128, 0.0371, False, False, (256, 128), (384, 256)),
        (3, 17, 19, 48, 80, 3, 2, 1, 1, "leaky", u, u, 128, 120, 0.05, True, False, (64, 16), (96, 16)),
        (2, 9, 9, 48, 144, 1, 1, 0, 1, "clip", u, i, 3, 5, 0.013, False, True, (48, 0), (144, 0)),
        (1, 12, 15, 16, 21, 5, 1, 2, 2, "hardswish", i, u, 11, 100, 0.1, False, True, (16, 0), (21, 0)),
        (2, 10, 10, 64, 65, 1, 1, 0, 1, "none", i, f, 0, 0, None, False, False, (64, 0), (65, 0)),
        (1, 8, 8, 512, 256, 1, 1, 0, 1, "hardsigmoid", i, f, -3, 0, None, False, True, (512, 0), (256, 0)),
        (1, 8, 8, 64, 64, 3, 1, 1, 1, "relu", i, h, 0, 0, None, False, False, (64, 0), (64, 0)),
        (5, 7, 5, 80, 33, 2, 2, 0, 1, "none", u, i, 0, -128, 0.5, True, False, (80, 0), (48, 4)),
    ]

def check_conv_i8():
    ws, sem = workspace()
    bad = ran = 0
    rng = np.random.default_rng(int(time.time()))
    for fam in ("conv_i8", "conv72_i8", "conv_i8c4", "conv1_i8", "conv3_i8", "conv3s2_i8", "conv_stem3_i8", "conv_stem6_i8"):
        if ONLY not in fam: continue
        for case in i8_cases() if fam in ("conv_i8", "conv_i8c4", "conv72_i8") else extra_i8(fam):
            n, h, w, cin, cout, k, s, p, d, act, xd, od, xz, zero, scale, table, fb, (xp, xo), (yp, yo) = case
            k, s, p, d = map(two, (k, s, p, d))
            c4 = fam == "conv_i8c4" or "stem" in fam
            if c4: cin, xp, xo = 3, 4, 0
            oh, ow = conv_out(h, k[0], s[0], p[0], d[0]), conv_out(w, k[1], s[1], p[1], d[1])
            lo, hi = (-128, 127) if xd == torch.int8 else (0, 255)
            x = View(n, h, w, 4 if c4 else cin, xd, xp, xo)
            x.buf.copy_(torch.from_numpy(rng.integers(lo, hi + 1, (n, h, w, xp))))
            wt = torch.from_numpy(rng.integers(-128, 128, (cout, cin, *k))).to(torch.int8)
            bias = torch.from_numpy(rng.integers(-2000, 2000, cout)).to(torch.int32)
            mul = torch.from_numpy((rng.random(cout) * 2e-3 / math.sqrt(cin * k[0] * k[1]) + 1e-4).astype(np.float32))
            if scale == 0.25: mul.fill_(2.0 ** -9)
            fbias = torch.from_numpy(rng.standard_normal(cout).astype(np.float32)) if fb else None
            tab = torch.from_numpy(rng.integers(0, 256, 256)).to(torch.uint8) if table else None
            a, b = (0.1, 1.5) if act == "leaky" else (-0.5, 1.5)
            olo, ohi = (-128, 127) if od == torch.int8 else (0, 255)
            ref = quant_ref(x.t()[..., :cin], wt, xz, bias, mul, fbias, act, a, b, scale, zero, olo, ohi, tab, k, s, p, d)
            xor = -2139062144 if xd == torch.uint8 else 0
            xzk = xz - 128 if xor else xz
            folded = (bias.long() - xzk * wt.long().sum((1, 2, 3))).to(torch.int32)
            dev = lambda t: t.to(DEV) if t is not None else None
            quant = dict(mul=dev(mul), fbias=dev(fbias), table=dev(tab), pad=torch.full((16,), xz, device=DEV).to(xd), xor=xor, scale=scale or 1.0, zero=zero)
            pw = pack(dev(wt), 16, c4)
            fold = dev(folded)
            for v in VARIANTS:
                if v.family != fam or (v.name.endswith("_one") or fam == "conv1_i8") and cin > v.bk: continue
                steps = -(-(pw.numel() // cout) // v.bk)
                for splits in (1, 2, 5):
                    if splits > steps or splits > 1 and v.wk == 1: continue
                    y = poisoned(n, oh, ow, cout, od, yp, yo)
                    ConvCall(x, y, pw, k, s, p, d, fold, act, a, b, quant=quant, cin=x.c).run(v, splits, ws, sem)
                    sync(); ran += 1
                    got = y.t().cpu().numpy()
                    want = ref
                    if od == torch.float16: want = ref.astype(np.float16)
                    if od in (torch.int8, torch.uint8):
                        got = got.astype(np.int32)
                        if tab is not None and od == torch.int8: got = got & 255
                    wrong = int((got != want).sum())
                    if (wrong or not around_kept(y)) and not DRY:
                        bad += 1
                        if bad < 30: say("BAD", v.name, splits, case, "wrong", wrong, "of", want.size, "around", around_kept(y))
    say(f"conv i8: {ran} runs, not bit-exact: {bad}")

# ---- YOLOv8n as a list of convolutions in its buffers ----

class Net:
    """yolov8 (n by default) at 640: buffers with concat homes, every convolution as a ConvCall, f16."""
    def __init__(self, batch, size=640, widths=(16, 32, 64, 128, 256), depth=(1, 2, 2, 1), merge=True, seed=0, i8=False):
        self.i8 = i8
        self.b, self.calls, self.steps, self.seed = batch, [], [], seed
        self.merge = merge
        self.g = torch.Generator(device="cpu").manual_seed(seed)
        w1, w2, w3, w4, w5 = widths
        n = batch
        V = lambda s, c: View(n, s, s, c, torch.int8 if i8 else torch.float16)
        self.x = V(size, 4)
        s = [size >> i for i in range(6)]
        a0 = V(s[1], w1); self.conv("0", self.x, a0, 3, 2, cin=3)
        a1 = V(s[2], w2); self.conv("1", a0, a1, 3, 2)
        a2 = V(s[2], w2); self.c2f("2", a1, a2, depth[0], True)
        a3 = V(s[3], w3); self.conv("3", a2, a3, 3, 2)
        a4 = V(s[3], w3); self.c2f("4", a3, a4, depth[1], True)
        a5 = V(s[4], w4); self.conv("5", a4, a5, 3, 2)
        a6 = V(s[4], w4); self.c2f("6", a5, a6, depth[2], True)
        a7 = V(s[5], w5); self.conv("7", a6, a7, 3, 2)
        a8 = V(s[5], w5); self.c2f("8", a7, a8, depth[3], True)
        c20 = V(s[5], w4 + w5)          # concat 20: conv 19, then 9
        a9 = c20.slice(w4, w5)
        sp = V(s[5], 2 * w5)
        self.conv("9.cv1", a8, sp.slice(0, w5 // 2), 1, 1)
        self.sppf(sp)
        self.conv("9.cv2", sp, a9, 1, 1)
        c17 = V(s[4], w3 + w4)          # concat 17: conv 16, then 12
        a12 = c17.slice(w3, w4)
        self.c2f("12", a9, a12, depth[0], False, x2=a6, up=1)
        a15 = V(s[3], w3)
        self.c2f("15", a12, a15, depth[0], False, x2=a4, up=1)
        self.heads = []
        self.detect("22.0", a15)
        self.conv("16", a15, c17.slice(0, w3), 3, 2)
        a18 = V(s[4], w4)
        self.c2f("18", c17, a18, depth[0], False)
        self.detect("22.1", a18)
        self.conv("19", a18, c20.slice(0, w4), 3, 2)
        a21 = V(s[5], w5)
        self.c2f("21", c20, a21, depth[0], False)
        self.detect("22.2", a21)

    def conv(self, name, x, y, k, s, act="silu", res=None, x2=None, up=0, cin=None):
        c = cin or x.c + (x2.c if x2 else 0)
        if self.i8:
            return self.conv_i8(name, x, y, k, s, c, x2, up, cin == 3)
        w = (torch.randn(y.c, c, k, k, generator=self.g) * 1.6 / math.sqrt(c * k * k)).half().to(DEV)
        bias = (torch.randn(y.c, generator=self.g) * 0.3).to(DEV)
        c4 = cin == 3
        call = ConvCall(x, y, pack(w, 8, c4), (k, k), (s, s), (k // 2, k // 2), bias=bias, act=act, res=res, res_mode=2 if res else 0, x2=x2, up=up, h=y.h * s, wd=y.w * s)
        call.name, call.family = name, "conv_f16c4" if c4 else "conv_f16cat" if x2 else "conv_f16"
        call.macs = call.m * y.c * c * k * k
        call.bytes = 2 * ((x.n * x.h * x.w * x.c) + (x2.n * x2.h * x2.w * x2.c if x2 else 0) + call.m * y.c * (2 if res else 1) + w.numel())
        call.shape = (x.n, y.h, y.w, c, y.c, k, s, up, bool(res), bool(x2))
        def ref(xf):
            r = F.conv2d(xf, w.float(), bias, s, k // 2)
            return F.silu(r) if act == "silu" else r
        call.x, call.y, call.ref, call.res, call.x2, call.up = x, y, ref, res, x2, up
        self.calls.append(call)
        self.steps.append(call)

    def conv_i8(self, name, x, y, k, s, c, x2, up, c4):
        w = torch.randint(-100, 100, (y.c, c, k, k), generator=self.g).to(torch.int8).to(DEV)
        q = dict(mul=torch.full((y.c,), 1e-4, device=DEV), table=torch.arange(256, device=DEV).to(torch.uint8), pad=torch.zeros(16, dtype=torch.int8, device=DEV), scale=0.03)
        call = ConvCall(x, y, pack(w, 16, c4), (k, k), (s, s), (k // 2, k // 2), bias=torch.zeros(y.c, dtype=torch.int32, device=DEV), x2=x2, up=up, h=y.h * s, wd=y.w * s, quant=q)
        call.name, call.family = name, "conv_i8c4" if c4 else "conv_i8cat" if x2 else "conv_i8"
        call.macs = call.m * y.c * c * k * k
        call.bytes = (x.n * x.h * x.w * x.c) + (x2.n * x2.h * x2.w * x2.c if x2 else 0) + call.m * y.c + w.numel()
        call.shape = (x.n, y.h, y.w, c, y.c, k, s, up, False, bool(x2), "i8")
        call.x, call.y = x, y
        self.calls.append(call)
        self.steps.append(call)

    def sppf(self, sp):
        c = sp.c // 4
        p = S["SppfParams"]()
        p.x, p.y1, p.y2, p.y3 = (sp.slice(i * c, c).ptr() for i in range(4))
        p.batch, p.h, p.w, p.c = sp.n, sp.h, sp.w, c
        p.x_pix = p.y_pix = sp.pix
        p.x_img = p.y_img = sp.pix * sp.w * sp.h
        self.steps.append(("sppf", p, sp))

    def c2f(self, name, x, y, n, shortcut, x2=None, up=0):
        c = y.c // 2
        dt = y.buf.dtype
        home = View(y.n, y.h, y.w, (2 + n) * c, dt)
        self.conv(name + ".cv1", x, home.slice(0, 2 * c), 1, 1, x2=x2, up=up)
        for i in range(n):
            src, dst = home.slice((1 + i) * c, c), home.slice((2 + i) * c, c)
            mid = View(y.n, y.h, y.w, c, dt)
            self.conv(f"{name}.m{i}.cv1", src, mid, 3, 1)
            self.conv(f"{name}.m{i}.cv2", mid, dst, 3, 1, res=src if shortcut else None)
        self.conv(name + ".cv2", home, y, 1, 1)

    def detect(self, name, x):
        n, h, w = x.n, x.h, x.w
        V = lambda c: View(n, h, w, c, x.buf.dtype)
        first = V(144)
        if self.merge:
            self.conv(name + ".01", x, first, 3, 1)
        else:
            self.conv(name + ".b0", x, first.slice(0, 64), 3, 1)
            self.conv(name + ".c0", x, first.slice(64, 80), 3, 1)
        b1, c1, out = V(64), V(80), V(144)
        self.conv(name + ".b1", first.slice(0, 64), b1, 3, 1)
        self.conv(name + ".b2", b1, out.slice(0, 64), 1, 1, act="none")
        self.conv(name + ".c1", first.slice(64, 80), c1, 3, 1)
        self.conv(name + ".c2", c1, out.slice(64, 80), 1, 1, act="none")
        self.heads.append(out)

    def reference(self):
        """Runs the steps in PyTorch f32 over the same buffers, each result rounded to half."""
        for st in self.steps:
            if isinstance(st, tuple):
                sp = st[2]; c = sp.c // 4
                for i in range(3):
                    src = sp.slice(i * c, c).t().permute(0, 3, 1, 2).float()
                    sp.slice((i + 1) * c, c).t().copy_(F.max_pool2d(src, 5, 1, 2).permute(0, 2, 3, 1).half())
                continue
            xf = st.x.t()[..., :3] if st.family == "conv_f16c4" else st.x.t()
            xf = xf.permute(0, 3, 1, 2).float()
            if st.up: xf = F.interpolate(xf, scale_factor=2, mode="nearest")
            if st.x2: xf = torch.cat([xf, st.x2.t().permute(0, 3, 1, 2).float()], 1)
            r = st.ref(xf).permute(0, 2, 3, 1)
            if st.res: r = r + st.res.t().float()
            st.y.t().copy_(r.half())

def candidates(call, batch, max_splits=8):
    """Variants and splits worth timing for a convolution."""
    out = []
    for v in VARIANTS:
        tag = "i8" if "i8" in call.family else "f16"
        plain = call.family == "conv_" + tag
        fits = (v.family == call.family or v.family == "conv3_" + tag and plain and call.shape[5:7] == (3, 1) or v.family == "conv3s2_" + tag and plain and call.shape[5:7] == (3, 2)
                or v.family == "conv_stem3_" + tag and call.family == f"conv_{tag}c4" or v.family == "conv1_" + tag and plain and call.shape[5:7] == (1, 1) and call.p.cin <= v.bk and call.p.res_mode == 0)
        if not fits or v.name.endswith("_one") and call.p.cin > v.bk: continue
        if v.family.startswith("conv1_") and v.bk > call.p.cin * 1.5 and v.bk > 64: continue
        if v.bn >= 2 * pad_to(call.p.cout, 16) and v.bn > 16: continue
        tiles = call.tiles(v)
        steps = -(-call.kb // v.bk)
        if tiles < 8 or (tiles > 40000): pass
        if not v.family.startswith("conv1_") and v.bm >= 128 and tiles * 4 < 132 and batch == 1: continue
        if v.bm <= 32 and tiles > 132 * 12: continue
        if v.bm <= 16 and tiles > 132 * 6: continue
        for splits in (1, 2, 4, 8):
            if splits > 1 and v.wk == 1 or splits > max_splits or splits * 2 > steps and splits > 1: continue
            if splits > 1 and tiles * splits > 132 * 4: continue
            if splits > 1 and tiles * v.bm * v.bn * splits > (1 << 26): continue
            out.append((v, splits))
    return out

CHOICE = {}

def tune(batches=(1, 4, 8, 32), pdl=False, i8=False):
    torch.backends.cudnn.allow_tf32 = False
    ws, sem = workspace()
    for batch in batches:
        net = Net(batch, i8=i8)
        if i8:
            for c in net.calls: c.x.buf.copy_(torch.randint(-128, 128, c.x.buf.shape, device=DEV, dtype=torch.int8))
        else:
            net.x.buf.normal_()
            for c in net.calls: c.y.t().normal_()
        done, rows, total, floor_total = {}, [], 0.0, 0.0
        reps = 20 if batch == 1 else 6 if batch == 8 else 3
        for c in net.calls:
            if c.shape not in done:
                best = []
                for v, splits in candidates(c, batch):
                    def go():
                        for _ in range(reps): c.run(v, splits, ws, sem, pdl)
                    try:
                        us = graph_us(go, 2, 3) / reps
                    except Exception as e:
                        say("FAIL", c.name, v.name, splits, e); raise
                    best.append((us, v.name, splits))
                best.sort()
                done[c.shape] = best
                CHOICE[(batch, c.shape)] = best[0][1:]
            best = done[c.shape]
            us = best[0][0]
            fl = max(2 * c.macs / (1242e12 if i8 else 607e12), c.bytes / 4.3e12) * 1e6
            total += us; floor_total += fl
            note(f"{'i8 ' if i8 else ''}bs{batch:<3d}{c.name:10s} {str(c.shape):52s} {us:8.2f} us  {2 * c.macs / us / 1e6:7.1f} TFLOP/s {c.bytes / us / 1e3:7.0f} GB/s floor {fl:6.2f} ({fl / us * 100:3.0f} %)  "
                 + "  ".join(f"{n[4:]}/{s}:{u:.2f}" for u, n, s in best[:7]))
        say(f"{'int8' if i8 else 'f16'} bs {batch}: sum of best conv times {total:.1f} us, roofline {floor_total:.1f} us, {len(done)} shapes")
        del net
        if not DRY: torch.cuda.empty_cache()

def whole(batches=(1, 4, 8, 32), i8=False):
    ws, sem = workspace()
    for batch in batches:
        net = Net(batch, i8=i8)
        if not i8: net.x.buf.normal_()
        def one(st, pdl):
            if isinstance(st, tuple):
                launch_sppf(st[1], pdl, i8)
            else:
                name, splits = CHOICE[(batch, st.shape)]
                st.run(BY_NAME[name], splits, ws, sem, pdl)
        def go(pdl=False):
            for st in net.steps: one(st, pdl)
        def branches(pdl=False):
            """The three scales' heads beside the main line, each with its box and its class half beside the other."""
            main = torch.cuda.current_stream()
            after, side = [], {}
            for st in net.steps:
                name = "" if isinstance(st, tuple) else st.name
                if not name.startswith("22."):
                    one(st, pdl)
                    continue
                scale, part = name[3], name[5:]
                if part == "01":
                    side[scale] = (torch.cuda.Stream(), torch.cuda.Stream())
                    s0, s1 = side[scale]
                    s0.wait_stream(main)
                    with torch.cuda.stream(s0): one(st, pdl)
                    s1.wait_stream(s0)
                    continue
                with torch.cuda.stream(side[scale][0 if part[0] == "b" else 1]): one(st, pdl)
            for s0, s1 in side.values():
                main.wait_stream(s0)
                main.wait_stream(s1)
        for label, f in (("", go), (" programmatic", lambda: go(True))) + (() if DRY else ((" branches", branches), (" branches programmatic", lambda: branches(True)))):
            try:
                us = graph_us(f, 10, 7)
                say(f"yolov8n {'int8' if i8 else 'f16'} bs {batch} convolutions + sppf, one graph{label}: {us / 1000:.4f} ms")
            except Exception as e:
                say("failed", label, e)
        for label, f in () if i8 else (("", lambda: go(False)), (" programmatic", lambda: branches(True) if not DRY else go())):
            for st in net.calls: st.y.t().fill_(float("nan"))
            if label and not DRY:
                s = torch.cuda.Stream()
                g = torch.cuda.CUDAGraph()
                with torch.cuda.graph(g): f()
                g.replay()
            else: f()
            sync()
            got = [h.t().clone() for h in net.heads]
            net.reference()
            say(f"   heads against PyTorch f32{label}: " + " ".join(f"{rel(a, h.t()):.2e}" for a, h in zip(got, net.heads)))
        del net
        if not DRY: torch.cuda.empty_cache()

def launch_sppf(p, pdl=False, i8=False):
    D.launch("pool", "sppf_i8_k5" if i8 else "sppf_f16_k5", p, (p.batch * p.c // (8 if i8 else 4), 1), 256, sppf_shared(p), pdl)

def sppf_shared(p):
    return 2 * p.h * p.w * 8

def prof():
    """A few launches for a profiler."""
    ws, sem = workspace()
    for batch, picks in ((32, (("0", "conv_stem3_f16_256x16"), ("2.cv1", "conv_f16_64x32x32_k1_s4"), ("4.cv2", "conv_f16_256x64x32_k1_s3"), ("22.0.c1", "conv3_f16_128x80_c32"),
                               ("22.0.b1", "conv3_f16_128x64_c32_w22"), ("22.0.b1", "conv_f16_64x64x32_k1_s4"), ("6.cv1", "conv_f16_128x128x32_k1_s4"))),
                         (1, (("8.m0.cv1", "conv_f16_16x32x128_k8_s3"), ("22.2.b2", "conv_f16_32x32x64_k4_s4"), ("4.cv1", "conv_f16_64x32x32_k1_s4")))):
        net = Net(batch)
        net.x.buf.normal_()
        for c in net.calls: c.y.t().normal_()
        for layer, variant in picks:
            c = next(c for c in net.calls if c.name == layer)
            c.run(BY_NAME[variant], 1, ws, sem)
            sync()

GROUPS = {"prof": prof, "conv_f16": check_conv_f16, "conv_cat": check_conv_cat, "conv_i8": check_conv_i8, "tune": tune, "whole": whole,
          "tune_i8": lambda: tune(i8=True), "whole_i8": lambda: whole(i8=True), "tune1": lambda: (tune((1,)), tune((1,), i8=True)), "whole1": lambda: (whole((1,)), whole((1,), i8=True))}

import bench_ops
bench_ops.install(globals())

def main():
    if DEV == "cuda": say(torch.__version__, torch.cuda.get_device_name())
    for gname in sys.argv[2].split(","):
        t = time.time()
        try:
            GROUPS[gname]()
        except Exception:
            say("GROUP", gname, "failed\n", traceback.format_exc())
        say(f"[{gname}: {time.time() - t:.1f} s]")

if __name__ == "__main__":
    main()
