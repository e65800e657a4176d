"""Checks of the kernels that are no tensor-core convolutions; bench.py runs them as its group `ops`."""
import math, time
import numpy as np
import torch
import torch.nn.functional as F

def install(B):
    """B: bench.py's namespace."""
    S, D, DT, say, note, sync, DEV, DRY, ACTS, View, rel, pad_to = (B[k] for k in "S D DT say note sync DEV DRY ACTS View rel pad_to".split())
    graph_us = B["graph_us"]
    results = []

    def fill(struct, **kw):
        p = S[struct]()
        for k, v in kw.items():
            f = getattr(p, k)
            if isinstance(v, torch.Tensor): v = v.data_ptr()
            if hasattr(f, "_length_"):
                for i, x in enumerate(v): f[i] = x
            elif hasattr(f, "n") or hasattr(f, "s"):
                a = f.n if hasattr(f, "n") else f.s
                for i, x in enumerate(v): a[i] = x
            else: setattr(p, k, v)
        p._hold = kw
        return p

    def dims(shape): return [1] * (6 - len(shape)) + list(shape)
    def strides(t, shape=None):
        t = t.expand(shape) if shape is not None else t
        return [0] * (6 - t.dim()) + list(t.stride())

    def launch(unit, name, p, grid, block=256, shared=0):
        D.launch(unit, name, p, grid if isinstance(grid, tuple) else (grid,), block, shared)
        sync()

    def check(name, got, want, tol):
        if DRY: return
        if isinstance(got, torch.Tensor) and got.dtype.is_floating_point:
            g, w = got.double().cpu(), want.double().cpu()
            same = (torch.isnan(g) & torch.isnan(w)) | (g == w)
            bad = bool(((~same) & ~torch.isfinite(g)).any())
            g, w = torch.where(same, 0, g), torch.where(same, 0, w)
            e = float((g - w).norm() / max(float(torch.where(torch.isfinite(want.double().cpu()), want.double().cpu(), 0).norm()), 1e-30))
            ok = e <= tol and not bad
        else:
            e = int((got.cpu() != want.cpu()).sum()); ok = e == 0
        results.append((name, ok, e))
        note(("ok  " if ok else "BAD ") + f"{name}: {e}")
        if not ok: say("BAD", name, e)

    EW = {}
    import re, os
    for m in re.finditer(r"#define EW_(\w+) (\d+)", open(os.path.join(B["HERE"], "params.cuh")).read()): EW[m[1]] = int(m[2])
    RD = {m[1]: int(m[2]) for m in re.finditer(r"#define REDUCE_(\w+) (\d+)", open(os.path.join(B["HERE"], "params.cuh")).read())}

    def poison(shape, dt): return torch.full(shape, float("nan"), dtype=dt, device=DEV) if dt.is_floating_point else torch.full(shape, 77, device=DEV).to(dt)

    def ew(op, y, a, b=None, c=None, p0=0.0, p1=0.0):
        kw = dict(a=a, y=y, dims=dims(y.shape), sa=strides(a, y.shape), sy=strides(y), ta=DT[a.dtype], ty=DT[y.dtype], op=EW[op], count=y.numel(), p0=p0, p1=p1)
        if b is not None: kw.update(b=b, sb=strides(b, y.shape), tb=DT[b.dtype])
        if c is not None: kw.update(c=c, sc=strides(c, y.shape), tc=DT[c.dtype])
        launch("ew", "ew", fill("EwParams", **kw), -(-y.numel() // 256))
        return y

    def elementwise():
        r = torch.randn(3, 5, 7, 11, device=DEV)
        refs = {"RELU": torch.relu, "SIGMOID": torch.sigmoid, "SILU": F.silu, "TANH": torch.tanh, "EXP": torch.exp, "LOG": torch.log, "SQRT": torch.sqrt, "ERF": torch.erf,
                "FLOOR": torch.floor, "CEIL": torch.ceil, "ROUND": torch.round, "COS": torch.cos, "SIN": torch.sin, "NEG": torch.neg, "ABS": torch.abs, "RECIPROCAL": torch.reciprocal,
                "SIGN": torch.sign, "SOFTPLUS": F.softplus, "HARDSWISH": F.hardswish, "MISH": F.mish, "GELU": F.gelu, "GELU_TANH": lambda x: F.gelu(x, approximate="tanh"),
                "LEAKY": lambda x: F.leaky_relu(x, 0.1), "ELU": lambda x: F.elu(x, 0.7), "CLIP": lambda x: x.clamp(-0.5, 0.5), "COPY": lambda x: x}
        for n, f in refs.items():
            p0, p1 = {"LEAKY": (0.1, 0), "ELU": (0.7, 0), "CLIP": (-0.5, 0.5)}.get(n, (0, 0))
            for dt, tol in ((torch.float32, 3e-6), (torch.float16, 4e-4), (torch.float64, 1e-6)):
                x = r.to(dt).transpose(1, 3)
                check(f"ew {n} {dt}", ew(n, poison(x.shape, dt), x, p0=p0, p1=p1), f(x.double()).to(dt), tol)
        wide = (torch.rand(1000, device=DEV, dtype=torch.float64) - 0.5) * 2e5
        for n, f in (("SIN", torch.sin), ("COS", torch.cos)):
            check(f"ew {n} far f64", ew(n, poison((1000,), torch.float64), wide), f(wide), 1e-11)
            check(f"ew {n} far f32", ew(n, poison((1000,), torch.float32), wide.float()), f(wide.float().double()).float(), 1e-7)
        b = torch.randn(7, 1, device=DEV)
        for n, f in {"ADD": torch.add, "SUB": torch.sub, "MUL": torch.mul, "DIV": torch.div, "MIN": torch.minimum, "MAX": torch.maximum, "FMOD": torch.fmod}.items():
            check(f"ew {n} f32", ew(n, poison(r.shape, torch.float32), r, b), f(r, b), 1e-7)
            check(f"ew {n} f16", ew(n, poison(r.shape, torch.float16), r.half(), b.half()), f(r.half().float(), b.half().float()).half(), 1e-7)
        i = torch.randint(-9, 9, (4, 6), device=DEV); j = torch.randint(1, 5, (6,), device=DEV) * torch.tensor([1, -1, 1, -1, 1, 1], device=DEV)
        for dt in (torch.int64, torch.int32, torch.int8):
            a, c = i.to(dt), j.to(dt)
            for n, f in {"ADD": torch.add, "MUL": torch.mul, "MOD": torch.remainder, "MAX": torch.maximum}.items():
                check(f"ew {n} {dt}", ew(n, poison(a.shape, dt), a, c), f(a, c), 0)
            check(f"ew DIV {dt}", ew("DIV", poison(a.shape, dt), a, c), torch.div(a, c, rounding_mode="trunc"), 0)
            check(f"ew LESS {dt}", ew("LESS", poison(a.shape, torch.bool), a, c), a < c, 0)
        check("ew EQUAL f32", ew("EQUAL", poison(r.shape, torch.bool), r, r.clone()), r == r, 0)
        cnd = r > 0
        check("ew WHERE", ew("WHERE", poison(r.shape, torch.float32), cnd, r, b), torch.where(cnd, r, b), 0)
        check("ew POW", ew("POW", poison(r.shape, torch.float32), r.abs(), b), r.abs() ** b, 1e-5)
        odd = torch.tensor([1.9, -1.9, float("nan"), 300., -300., float("inf")], device=DEV)
        check("ew cast i8", ew("COPY", poison((6,), torch.int8), odd), torch.tensor([1, -1, 0, 127, -128, 127], device=DEV).to(torch.int8), 0)
        check("ew cast wrap", ew("COPY", poison((2,), torch.int8), torch.tensor([300, -129], device=DEV)), torch.tensor([44, 127], device=DEV).to(torch.int8), 0)
        sc = torch.rand(5, device=DEV).reshape(5, 1, 1) * 0.05 + 0.01
        z = torch.randint(-20, 20, (5, 1, 1), device=DEV).to(torch.int8)
        want = (torch.round((r.cpu().numpy() / sc.cpu().numpy() if False else torch.from_numpy(r.cpu().numpy() / sc.cpu().numpy()))).to(torch.int32) + z.cpu().int()).clamp(-128, 127).to(torch.int8)
        q = ew("QUANTIZE", poison(r.shape, torch.int8), r, sc, z)
        check("ew QUANTIZE", q, want, 0)
        check("ew DEQUANTIZE", ew("DEQUANTIZE", poison(r.shape, torch.float32), q, sc, z), (q.float() - z.float()) * sc, 0)
        t = torch.randint(0, 256, (256,), device=DEV).to(torch.uint8)
        y = poison(q.shape, torch.uint8)
        launch("ew", "ew", fill("EwParams", a=q, c=t, y=y, dims=dims(q.shape), sa=strides(q), sy=strides(y), ta=DT[q.dtype], ty=DT[y.dtype], op=EW["LOOKUP"], count=y.numel()), -(-y.numel() // 256))
        check("ew LOOKUP", y, t[q.view(torch.uint8).long()], 0)
        a, c = torch.randn(4096, device=DEV).half(), torch.randn(4096, device=DEV).half()
        y = poison((4096,), torch.float16)
        for ta, tb, ty in ((torch.float16, torch.float32, torch.float32), (torch.float32, torch.float16, torch.float16)):
            home = poison((3, 100), ty)
            u, w = torch.randn(3, 64, device=DEV).to(ta), torch.randn(3, 72, device=DEV).to(tb)
            for n, f in (("COPY", lambda m, k: m), ("ADD", torch.add), ("SIGMOID", lambda m, k: torch.sigmoid(m)), ("SILU", lambda m, k: F.silu(m))):
                p = fill("EwParams", a=u, b=w, dims=[1, 1, 1, 1, 3, 56], sa=[0, 0, 0, 0, 64, 1], sb=[0, 0, 0, 0, 72, 1], sy=[0, 0, 0, 0, 100, 1], ta=DT[ta], tb=DT[tb], ty=DT[ty], op=EW[n], count=168)
                if ty == torch.float16: p.sy.s[4] = 96
                p.y = home.data_ptr() + 16
                launch("ew", "ew_rows", p, 1)
                pitch = 96 if ty == torch.float16 else 100
                got = torch.stack([home.flatten()[16 // home.element_size() + r * pitch:][:56] for r in range(3)])
                check(f"ew_rows {n} {ty}", got, f(u[:, :56].double(), w[:, :56].double()).to(ty), 4e-4 if ty == torch.float16 else 1e-6)
        launch("ew", "ew_dense_f16", fill("EwParams", a=a, b=c, y=y, op=EW["ADD"], count=4096), 2)
        check("ew_dense_f16", y, (a.float() + c.float()).half(), 0)

    def moves():
        for dt, n in ((torch.uint8, "b1"), (torch.float16, "b2"), (torch.float32, "b4"), (torch.int64, "b8")):
            x = torch.randint(0, 200, (2, 3, 5, 7, 4), device=DEV).to(dt).permute(0, 4, 2, 1, 3)[:, 1:3]
            y = poison(x.shape, dt)
            launch("move", "copy_" + n, fill("CopyParams", x=x, y=y, dims=dims(x.shape), sx=strides(x), sy=strides(y), count=y.numel()), -(-y.numel() // 256))
            check("copy_" + n, y.view(torch.uint8) if dt == torch.uint8 else y, x, 0)
            i = torch.randint(-6, 6, (4,), device=DEV)
            src = torch.randint(0, 200, (3, 6, 5), device=DEV).to(dt)
            y = poison((3, 4, 5), dt)
            err = torch.zeros(1, dtype=torch.int32, device=DEV)
            launch("move", "gather_" + n, fill("GatherParams", x=src, indices=i, y=y, error=err, dims=dims((3, 4, 5)), sx=dims((0,)) [:3] + [30, 0, 1], si=[0, 0, 0, 0, 1, 0], sy=strides(y),
                                               axis_stride=[5], axis_size=[6], k=1, k_stride=1, ti=6, count=60), 1)
            check("gather_" + n, y, src[:, i % 6], 0)
            ups = torch.randint(0, 200, (3, 4, 5), device=DEV).to(dt)
            j = torch.tensor([1, 4, 1, -1], device=DEV)
            want = src.clone()
            for k in range(4): want[:, int(j[k]) % 6] = ups[:, k]
            got = src.clone()
            launch("move", "scatter_" + n, fill("GatherParams", x=got, indices=j, y=ups, dims=dims((3, 4, 5)), sx=[0, 0, 0, 30, 0, 1], si=[0, 0, 0, 0, 1, 0], sy=strides(ups),
                                                axis_stride=[5], axis_size=[6], k=1, k_stride=1, ti=6, count=60), 1, 1024)
            check("scatter_" + n, got, want, 0)
        x = torch.randn(2, 37, 65, device=DEV).half()
        y = poison((2, 65, 40), torch.float16)
        p = fill("TransposeParams", x=x, y=y, batch=2, rows=37, cols=65, x_batch=37 * 65, x_row=65, y_batch=65 * 40, y_row=40, fill_rows=40)
        launch("move", "transpose_b2", p, (3, 2, 2))
        check("transpose_b2", y, F.pad(x.transpose(1, 2), (0, 3)), 0)
        xf = torch.randn(2, 3, 1000, device=DEV)
        y = poison((2, 1000, 4), torch.float16)
        launch("move", "planes_to_pixels", fill("TransposeParams", x=xf, y=y, batch=2, rows=3, cols=1000, x_batch=3000, x_row=1000, y_batch=4000, y_row=4, fill_rows=4, tx=0, ty=1), (4, 1, 2))
        check("planes_to_pixels", y, F.pad(xf.transpose(1, 2), (0, 1)).half(), 0)
        y = poison((2, 1000, 3), torch.float32)
        launch("move", "transpose_cast", fill("TransposeParams", x=xf.half(), y=y, batch=2, rows=3, cols=1000, x_batch=3000, x_row=1000, y_batch=3000, y_row=3, fill_rows=3, tx=1, ty=0), (32, 1, 2))
        check("transpose_cast", y, xf.half().transpose(1, 2).float(), 0)
        y = poison((1001,), torch.float32)
        launch("move", "fill", fill("FillParams", y=y, bits=0x3fc00000, count=1001, size=4), 4)
        check("fill", y, torch.full((1001,), 1.5), 0)

    def reduces():
        x = torch.randn(3, 5, 33, 7, device=DEV)
        for dt, tol in ((torch.float32, 1e-6), (torch.float16, 4e-4), (torch.float64, 1e-12)):
            a = x.to(dt)
            w = a.double()
            for n, f in {"SUM": lambda t: t.sum((1, 3)), "MEAN": lambda t: t.mean((1, 3)), "MAX": lambda t: t.amax((1, 3)), "MIN": lambda t: t.amin((1, 3)), "L1": lambda t: t.abs().sum((1, 3)),
                         "L2": lambda t: (t * t).sum((1, 3)).sqrt(), "SUMSQUARE": lambda t: (t * t).sum((1, 3)), "LOGSUMEXP": lambda t: torch.logsumexp(t, (1, 3)),
                         "PROD": lambda t: t.prod(3).prod(1)}.items():
                y = poison((3, 33), dt)
                st = a.stride()
                launch("reduce", "reduce", fill("ReduceParams", x=a, y=y, outer=dims((3, 33)), sx=[0] * 4 + [st[0], st[2]], sy=strides(y), inner=dims((5, 7)), si=[0] * 4 + [st[1], st[3]],
                                                count=99, inner_count=35, kind=RD[n], tx=DT[dt], ty=DT[dt]), 13)
                check(f"reduce {n} {dt}", y, f(w).to(dt), tol)
        i = torch.randint(-4, 4, (6, 50), device=DEV).float()
        for n, f in (("ARGMAX", torch.argmax), ("ARGMIN", torch.argmin)):
            y = poison((6,), torch.int64)
            launch("reduce", "reduce", fill("ReduceParams", x=i, y=y, outer=dims((6,)), sx=[0] * 5 + [50], sy=[0] * 5 + [1], inner=dims((50,)), si=[0] * 5 + [1], count=6, inner_count=50,
                                            kind=RD[n], tx=0, ty=6), 1)
            ext = i.amax(1, keepdim=True) if n == "ARGMAX" else i.amin(1, keepdim=True)
            check(n, y, torch.argmax((i == ext).int() * (100 - torch.arange(50, device=DEV)), 1), 0)
        for n, k in (("softmax_warp", 65), ("softmax_block", 6400)):
            for dt, tol in ((torch.float32, 1e-6), (torch.float16, 4e-4)):
                a = torch.randn(5, k, 3, device=DEV).to(dt) * 3
                y = poison(a.shape, dt)
                launch("reduce", n, fill("SoftmaxParams", x=a, y=y, outer=dims((5, 3)), sx=[0] * 4 + [k * 3, 1], sy=[0] * 4 + [k * 3, 1], n=k, x_n=3, y_n=3, tx=DT[dt], ty=DT[dt]), 2 if n[-1] == "p" else 15)
                check(f"{n} {dt}", y, torch.softmax(a.double(), 1).to(dt), tol)
        for k in (3, 16, 21):
            for lg in (0, 1):
                a = torch.randn(2, k, 300, device=DEV) * 3 + (1e4 if lg else 0)
                y = poison(a.shape, torch.float32)
                launch("reduce", "softmax_lines", fill("SoftmaxParams", x=a, y=y, outer=dims((2, 300)), sx=[0] * 4 + [k * 300, 1], sy=[0] * 4 + [k * 300, 1], n=k, x_n=300, y_n=300, log=lg), 3)
                check(f"softmax_lines {k} {lg}", y, (torch.log_softmax if lg else torch.softmax)(a.double(), 1).float(), 1e-6)
        a, g, c = torch.randn(9, 256, device=DEV) + 3e4, torch.randn(256, device=DEV), torch.randn(256, device=DEV)
        y = poison(a.shape, torch.float32)
        launch("reduce", "normalize", fill("NormParams", x=a, y=y, scale=g, bias=c, outer=dims((9,)), inner=dims((256,)), xo=[0] * 5 + [256], xi=[0] * 5 + [1], yo=[0] * 5 + [256], yi=[0] * 5 + [1],
                                      so=[0] * 6, si=[0] * 5 + [1], count=9, inner_count=256, epsilon=1e-5), 9)
        check("normalize", y, F.layer_norm(a.double(), (256,), g.double(), c.double(), 1e-5).float(), 3e-6)
        for n, k in ((8400, 300), (24000, 300), (50, 50), (33600, 1000)):
            for smallest in (0, 1):
                a = torch.randint(0, 2000, (2, n), device=DEV).float() / 7
                a[0, 5] = float("nan") if n > 50 else 1.0
                s = 1
                while s < k: s *= 2
                v, ix = poison((2, k), torch.float32), poison((2, k), torch.int64)
                launch("reduce", "top_k", fill("TopKParams", x=a, values=v, indices=ix, rows=2, n=n, k=k, x_row=n, x_n=1, v_row=k, v_n=1, i_row=k, i_n=1, smallest=smallest), 2, 1024, 8 * s)
                key = np.where(np.isnan(a.cpu().numpy()), np.inf, a.cpu().numpy() if smallest else -a.cpu().numpy())
                order = np.argsort(key, axis=1, kind="stable")[:, :k]
                check(f"top_k {n} {k} {smallest} indices", ix, torch.from_numpy(order), 0)
                if n == 8400 and not smallest:
                    p = fill("TopKParams", x=a, values=v, indices=ix, rows=1, n=n, k=k, x_row=n, x_n=1, v_row=k, v_n=1, i_row=k, i_n=1)
                    say(f"top_k 300 of 8400: {graph_us(lambda: [D.launch('reduce', 'top_k', p, (1,), 1024, 8 * s) for _ in range(10)]) / 10:.1f} us")

    def products():
        for (b, m, n, k, ta, tb) in ((3, 65, 100, 40, 0, 0), (2, 400, 400, 32, 1, 0), (1, 300, 256, 256, 0, 1), (4, 33, 7, 13, 1, 1)):
            a = torch.randn(b, k, m, device=DEV).transpose(1, 2) if ta else torch.randn(b, m, k, device=DEV)
            c = torch.randn(b, n, k, device=DEV).transpose(1, 2) if tb else torch.randn(b, k, n, device=DEV)
            for dt, unit, tile, block in ((torch.float16, "matmul_f16_64x64", 64, 128), (torch.float32, "matmul_any", 32, 256)):
                aa = a.transpose(1, 2).to(dt).contiguous().transpose(1, 2) if ta else a.to(dt).contiguous()
                cc = c.transpose(1, 2).to(dt).contiguous().transpose(1, 2) if tb else c.to(dt).contiguous()
                y = poison((b, m, n), dt)
                bias = torch.randn(n, device=DEV).to(dt)
                p = fill("MatmulParams", a=aa, b=cc, c=y, bias=bias, m=m, n=n, k=k, batch1=1, a_b0=aa.stride(0), a_row=aa.stride(1), a_col=aa.stride(2), b_b0=cc.stride(0), b_row=cc.stride(1), b_col=cc.stride(2),
                         c_b0=m * n, c_row=n, c_col=1, bias_col=1, alpha=0.5, beta=2.0, ta=DT[dt], tb=DT[dt], tc=DT[dt], tbias=DT[dt])
                launch("matmul", unit, p, (-(-n // tile), -(-m // tile), b), block)
                check(f"{unit} {b} {m} {n} {k} {ta} {tb}", y, (0.5 * aa.double() @ cc.double() + 2 * bias.double()).to(dt), 4e-4 if dt == torch.float16 else 1e-6)
        a, c = torch.randint(0, 256, (1, 20, 30), device=DEV).to(torch.uint8), torch.randint(-128, 128, (1, 30, 17), device=DEV).to(torch.int8)
        y = poison((1, 20, 17), torch.int32)
        launch("matmul", "matmul_any", fill("MatmulParams", a=a, b=c, c=y, m=20, n=17, k=30, batch1=1, a_row=30, a_col=1, b_row=17, b_col=1, c_row=17, c_col=1, ta=4, tb=3, tc=5, a_zero=7, b_zero=-3), (1, 1, 1))
        check("matmul_any u8", y, ((a.cpu().long() - 7) @ (c.cpu().long() + 3)).int(), 0)

    def sampling():
        x = torch.randn(2, 3, 13, 17, device=DEV)
        def taps(n_in, n_out):
            t = np.zeros(n_out, dtype=[("at", np.int32, 4), ("w", np.float32, 4)])
            for o in range(n_out):
                at = min(max((o + 0.5) * n_in / n_out - 0.5, 0), n_in - 1)
                f = int(at); t[o]["at"][:2] = f, min(f + 1, n_in - 1); t[o]["w"][:2] = 1 - (at - f), at - f
            return torch.from_numpy(t.view(np.uint8).copy()).to(DEV)
        y = poison((2, 3, 26, 30), torch.float32)
        launch("resize", "resize", fill("ResizeParams", x=x, y=y, rows=taps(13, 26), cols=taps(17, 30), batch=2, channels=3, oh=26, ow=30, x_img=663, x_ch=221, x_row=17, x_pix=1,
                                        y_img=2340, y_ch=780, y_row=30, y_pix=1, taps=2), -(-2 * 3 * 26 * 30 // 256))
        check("resize linear", y, F.interpolate(x.double(), (26, 30), mode="bilinear").float(), 1e-6)
        grid = torch.rand(2, 9, 8, 2, device=DEV) * 2.6 - 1.3
        for mode, mn in enumerate(("bilinear", "nearest", "bicubic")):
            for out, on in enumerate(("zeros", "border", "reflection")):
                for ac in (0, 1):
                    y = poison((2, 3, 9, 8), torch.float32)
                    launch("resize", "grid_sample", fill("GridSampleParams", x=x, grid=grid, y=y, batch=2, channels=3, h=13, w=17, oh=9, ow=8, x_img=663, x_ch=221, x_row=17, x_pix=1, g_img=144, g_row=16, g_pix=2, g_xy=1,
                                                         y_img=216, y_ch=72, y_row=8, y_pix=1, mode=mode, outside=out, align_corners=ac), 2)
                    check(f"grid_sample {mn} {on} {ac}", y, F.grid_sample(x, grid, mn, on, bool(ac)), 2e-5)

    def pools():
        for dt, tag in ((torch.float16, "f16"), (torch.float32, "f32"), (torch.int8, "i8"), (torch.uint8, "u8")):
            mk = lambda *s: torch.randn(*s, device=DEV).to(dt) if dt.is_floating_point else torch.randint(-128 if dt == torch.int8 else 0, 127, s, device=DEV).to(dt)
            V = {"f16": 8, "f32": 4}.get(tag, 16)
            x = mk(2, 20, 17, 64)
            nchw = x.permute(0, 3, 1, 2).double()
            for k, s, p in ((5, 1, 2), (3, 2, 1), (2, 2, 0)):
                oh, ow = (20 + 2 * p - k) // s + 1, (17 + 2 * p - k) // s + 1
                y = poison((2, oh, ow, 64), dt)
                kw = dict(x=x, y=y, batch=2, h=20, w=17, c=64, oh=oh, ow=ow, kh=k, kw=k, sy=s, sx=s, py=p, px=p, dy=1, dx=1, x_img=20 * 17 * 64, x_row=17 * 64, x_pix=64, x_ch=1, y_img=oh * ow * 64, y_pix=64, y_ch=1,
                          pad_h=20 + 2 * p, pad_w=17 + 2 * p)
                want = F.max_pool2d(nchw, k, s, p).permute(0, 2, 3, 1).to(dt)
                launch("pool", "max_pool_" + tag, fill("PoolParams", **kw), -(-2 * oh * ow * (64 // V) // 256))
                check(f"max_pool_{tag} {k}", y, want, 0)
                y.fill_(1)
                launch("pool", "pool_any_" + tag, fill("PoolParams", **kw), -(-2 * oh * ow * 64 // 256))
                check(f"pool_any_{tag} {k}", y, want, 0)
                if dt.is_floating_point:
                    for mode, inc in ((1, False), (2, True)):
                        launch("pool", "pool_any_" + tag, fill("PoolParams", mode=mode, **kw), -(-2 * oh * ow * 64 // 256))
                        check(f"pool_any_{tag} average {k} {inc}", y, F.avg_pool2d(nchw, k, s, p, count_include_pad=inc).permute(0, 2, 3, 1).to(dt), 4e-4 if tag == "f16" else 1e-6)
            home = poison((2, 20, 17, 256), dt)
            home[..., :64] = x
            V2 = {"f16": 4, "f32": 2}.get(tag, 8)
            es = home.element_size()
            p = fill("SppfParams", batch=2, h=20, w=17, c=64, x_img=20 * 17 * 256, x_pix=256, y_img=20 * 17 * 256, y_pix=256)
            p.x, p.y1, p.y2, p.y3 = (home.data_ptr() + i * 64 * es for i in range(4))
            launch("pool", f"sppf_{tag}_k5", p, 2 * 64 // V2, 256, 16 * 20 * 17)
            w = nchw
            for i in range(3):
                w = F.max_pool2d(w, 5, 1, 2)
                check(f"sppf_{tag} {i}", home[..., 64 * (i + 1):64 * (i + 2)], w.permute(0, 2, 3, 1).to(dt), 0)

    def convs():
        C = B["ConvCall"]
        for tag, dt, tol in (("f16", torch.float16, 4e-4), ("f32", torch.float32, 2e-6)):
            for (n, h, w, c, k, s, pd, act, res) in ((2, 13, 11, 32, 3, 1, 1, "silu", 2), (1, 20, 17, 24, 5, 2, 2, "hardswish", 0), (1, 9, 9, 40, 7, 1, 3, "none", 1)):
                x = View(n, h, w, c, dt); x.buf.copy_(torch.randn(n, h, w, c))
                oh, ow = (h + 2 * pd - k) // s + 1, (w + 2 * pd - k) // s + 1
                wt = (torch.randn(c, 1, k, k, device=DEV) / k).to(dt)
                bias = torch.randn(c, device=DEV)
                r = View(n, oh, ow, c, dt); r.buf.copy_(torch.randn(n, oh, ow, c))
                y = View(n, oh, ow, c, dt); y.buf.fill_(float("nan"))
                pw = wt.reshape(c, k * k).t().contiguous()
                call = C(x, y, pw, (k, k), (s, s), (pd, pd), bias=bias, act=act, res=r if res else None, res_mode=res, groups=c)
                ref = F.conv2d(x.t().permute(0, 3, 1, 2).double(), wt.double(), bias.double(), s, pd, 1, c).permute(0, 2, 3, 1)
                if res == 1: ref = ref + r.t().double()
                ref = B["act_ref"](ref, act)
                if res == 2: ref = ref + r.t().double()
                launch("conv_dw", "conv_dw_" + tag, call.p, -(-n * oh * ow * (c // (8 if tag == "f16" else 4)) // 256))
                check(f"conv_dw_{tag} {k}", y.buf, ref.to(dt), tol)
            for (n, h, w, c, o, g, k, s) in ((2, 9, 10, 12, 18, 3, 3, 2), (1, 7, 7, 5, 9, 1, 17, 1)):
                x = View(n, h, w, c, dt); x.buf.copy_(torch.randn(n, h, w, c))
                pd = k // 2
                oh, ow = (h + 2 * pd - k) // s + 1, (w + 2 * pd - k) // s + 1
                wt = (torch.randn(o, c // g, k, k, device=DEV) / k).to(dt)
                y = View(n, oh, ow, o, dt); y.buf.fill_(float("nan"))
                call = C(x, y, wt.permute(0, 2, 3, 1).contiguous(), (k, k), (s, s), (pd, pd), act="relu", groups=g)
                launch("conv_dw", "conv_direct_" + tag, call.p, -(-n * oh * ow * o // 256))
                check(f"conv_direct_{tag}", y.buf, F.relu(F.conv2d(x.t().permute(0, 3, 1, 2).double(), wt.double(), None, s, pd, 1, g)).permute(0, 2, 3, 1).to(dt), tol)
            x = View(2, 7, 6, 16, dt); x.buf.copy_(torch.randn(2, 7, 6, 16))
            wt = torch.randn(16, 8, 3, 3, device=DEV).to(dt) / 4
            ref = F.conv_transpose2d(x.t().permute(0, 3, 1, 2).double(), wt.double(), None, 2, 1, 1, 2).permute(0, 2, 3, 1)
            y = View(2, ref.shape[1], ref.shape[2], 16, dt); y.buf.fill_(float("nan"))
            pw = wt.reshape(2, 8, 8, 3, 3).permute(0, 2, 3, 4, 1).reshape(16, 3, 3, 8).contiguous()
            call = C(x, y, pw, (3, 3), (2, 2), (1, 1), groups=2)
            launch("conv_dw", "conv_transpose_" + tag, call.p, -(-y.buf.numel() // 256))
            check(f"conv_transpose_{tag}", y.buf, ref.to(dt), tol)
        for case in ((2, 13, 11, 16, 32, 3, 1, 1, "silu", 2), (1, 20, 20, 64, 80, 1, 1, 0, "none", 0), (1, 31, 33, 4, 24, 3, 2, 1, "relu", 1), (1, 16, 16, 36, 20, 5, 1, 2, "hardswish", 0)):
            n, h, w, c, o, k, s, pd, act, res = case
            x = View(n, h, w, c, torch.float32); x.buf.copy_(torch.randn(n, h, w, c))
            oh, ow = (h + 2 * pd - k) // s + 1, (w + 2 * pd - k) // s + 1
            wt = torch.randn(o, c, k, k, device=DEV) / k
            bias = torch.randn(o, device=DEV)
            r = View(n, oh, ow, o, torch.float32); r.buf.copy_(torch.randn(n, oh, ow, o))
            ref = F.conv2d(x.t().permute(0, 3, 1, 2).double(), wt.double(), bias.double(), s, pd).permute(0, 2, 3, 1)
            if res == 1: ref = ref + r.t().double()
            ref = B["act_ref"](ref, act)
            if res == 2: ref = ref + r.t().double()
            pw = wt.permute(0, 2, 3, 1).contiguous()
            for v in B["VARIANTS"]:
                if v.family != "conv_f32": continue
                y = View(n, oh, ow, o, torch.float32, o + 3, 1); y.buf.fill_(float("nan"))
                C(x, y, pw, (k, k), (s, s), (pd, pd), bias=bias, act=act, res=r if res else None, res_mode=res).run(v)
                sync()
                check(f"{v.name} {case}", y.t(), ref.float(), 1e-6)
        rng = np.random.default_rng(int(time.time()))
        for name, g, c, o, k, s, xd in (("conv_dw_i8", 24, 24, 24, 3, 1, torch.uint8), ("conv_direct_i8", 2, 10, 14, 3, 2, torch.int8), ("conv_direct_i8", 1, 7, 9, 5, 1, torch.uint8)):
            x = View(2, 9, 11, c, xd); x.buf.copy_(torch.from_numpy(rng.integers(-128 if xd == torch.int8 else 0, 127, (2, 9, 11, c))))
            wt = torch.from_numpy(rng.integers(-128, 128, (o, c // g, k, k))).to(torch.int8)
            bias = torch.from_numpy(rng.integers(-500, 500, o)).to(torch.int32)
            mul = torch.from_numpy(rng.random(o).astype(np.float32) * 1e-3)
            xz, wz, zero, scale = 5, 3, -4, 0.0173
            pd = k // 2
            ref = B["quant_ref"](x.t(), wt, xz, bias, mul, None, "relu", 0, 0, scale, zero, -128, 127, None, (k, k), (s, s), (pd, pd), (1, 1), g, wz)
            oh, ow = ref.shape[1:3]
            y = View(2, oh, ow, o, torch.int8)
            pw = (wt.reshape(o, k * k).t() if "dw" in name else wt.permute(0, 2, 3, 1)).contiguous().to(DEV)
            q = dict(mul=mul.to(DEV), pad=torch.zeros(16, dtype=xd, device=DEV), xor=-2139062144 if xd == torch.uint8 else 0, scale=scale, zero=zero, x_zero=xz, w_zero=wz)
            call = C(x, y, pw, (k, k), (s, s), (pd, pd), bias=bias.to(DEV), act="relu", quant=q, groups=g)
            launch("conv_dw", name, call.p, -(-2 * oh * ow * (-(-o // 8) if "dw" in name else o) // 256))
            check(f"{name} {k}", y.buf.int(), torch.from_numpy(ref), 0)

    # ---- pictures ----

    def axis(src, dst, skip, count):
        t = np.zeros((count, 2), np.uint32)
        step = 1.0 / (dst / src)
        for i in range(count):
            pos = np.float32((skip + i + 0.5) * step - 0.5)
            fl = np.floor(pos); fr = np.float32(pos - fl)
            if fl < 0: at, w0, w1 = 0, 2048, 0
            elif fl >= src - 1: at, w0, w1 = (max(src - 2, 0), 0, 2048) if src > 1 else (0, 2048, 0)
            else: at, w0, w1 = int(fl), int(np.rint(np.float32(np.float32(1) - fr) * np.float32(2048))), int(np.rint(fr * np.float32(2048)))
            t[i] = at, w0 | w1 << 16
        return t

    def coefficients(full):
        kr, kb = 0.299, 0.114
        kg = 1 - kr - kb
        l, c = (1.0, 1.0) if full else (255 / 219, 255 / 224)
        f = lambda v: int(math.floor(abs(v) * 8192 + 0.5)) * (1 if v >= 0 else -1)
        return dict(floor=0 if full else 16, luma=f(l), red_v=f(2 * (1 - kr) * c), green_u=f(-2 * (1 - kb) * kb / kg * c), green_v=f(-2 * (1 - kr) * kr / kg * c), blue_u=f(2 * (1 - kb) * c))

    FORMATS = ("rgb", "bgr", "gray", "yuyv", "uyvy", "nv12", "nv21", "i420")

    def picture(fmt, w, h, k, rng):
        """Planes (bytes, row strides) and the RGB picture they stand for."""
        def yuv(y, u, v):
            y, u, v = y.astype(np.int64), u.astype(np.int64) - 128, v.astype(np.int64) - 128
            l = np.maximum(y - k["floor"], 0) * k["luma"] + 4096
            return np.stack([np.clip((l + v * k["red_v"]) >> 13, 0, 255), np.clip((l + u * k["green_u"] + v * k["green_v"]) >> 13, 0, 255), np.clip((l + u * k["blue_u"]) >> 13, 0, 255)], -1)
        even = (w + 1) // 2 * 2
        B_ = lambda hh, ww: rng.integers(0, 256, (hh, ww), dtype=np.uint8)
        if fmt in ("rgb", "bgr"):
            a = B_(h, w * 3); rgb = a.reshape(h, w, 3)
            return [a], (rgb if fmt == "rgb" else rgb[..., ::-1]).astype(np.int64)
        if fmt == "gray":
            a = B_(h, w); return [a], np.repeat(a[..., None], 3, -1).astype(np.int64)
        if fmt in ("yuyv", "uyvy"):
            a = B_(h, even * 2); q = a.reshape(h, even // 2, 4)
            yi, ui = (0, 1) if fmt == "yuyv" else (1, 0)
            y = np.stack([q[..., yi], q[..., yi + 2]], -1).reshape(h, even)[:, :w]
            return [a], yuv(y, np.repeat(q[..., ui], 2, 1)[:, :w], np.repeat(q[..., ui + 2], 2, 1)[:, :w])
        y = B_(h, w)
        if fmt == "i420":
            u, v = B_((h + 1) // 2, even // 2), B_((h + 1) // 2, even // 2)
            planes = [y, u, v]
        else:
            c = B_((h + 1) // 2, even); planes = [y, c]
            u, v = (c[:, 0::2], c[:, 1::2]) if fmt == "nv12" else (c[:, 1::2], c[:, 0::2])
        up = lambda p: np.repeat(np.repeat(p, 2, 0), 2, 1)[:h, :w]
        return planes, yuv(y, up(u), up(v))

    def pictures():
        rng = np.random.default_rng(int(time.time()))
        for fmt in FORMATS:
            for (w, h, tw, th, dt, nhwc, bgr) in ((67, 41, 64, 64, torch.float16, True, 0), (640, 360, 160, 128, torch.float32, False, 1), (31, 50, 96, 64, torch.uint8, True, 0), (1, 3, 32, 32, torch.float16, False, 0),
                                                  (1920, 1080, 640, 640, torch.float16, True, 0)):
                k = coefficients(False)
                planes, rgb = picture(fmt, w, h, k, rng)
                s = min(tw / w, th / h)
                rw, rh = max(1, round(w * s)), max(1, round(h * s))
                left, top = (tw - rw) // 2, (th - rh) // 2
                cols, lines = axis(w, rw, 0, rw), axis(h, rh, 0, rh)
                table = (np.arange(256)[None] * np.array([[1 / 255], [1 / 200], [1 / 100]])) if dt.is_floating_point else np.tile(np.arange(256), (3, 1))
                table = torch.from_numpy(table).to(dt)
                # Reference.
                src = rgb[..., ::-1] if bgr else rgb
                at, w0, w1 = cols[:, 0].astype(int), (cols[:, 1] & 0xffff).astype(np.int64), (cols[:, 1] >> 16).astype(np.int64)
                hor = (src[:, at] * w0[:, None] + src[:, np.minimum(at + 1, w - 1)] * w1[:, None]) >> 4
                at, w0, w1 = lines[:, 0].astype(int), (lines[:, 1] & 0xffff).astype(np.int64), (lines[:, 1] >> 16).astype(np.int64)
                ver = ((hor[at] * w0[:, None, None]) >> 16) + ((hor[np.minimum(at + 1, h - 1)] * w1[:, None, None]) >> 16)
                out = np.full((th, tw, 3), 114)
                out[top:top + rh, left:left + rw] = (ver + 2) >> 2
                want = torch.stack([table[c][torch.from_numpy(out[..., c].copy())] for c in range(3)], -1)
                ch = 4 if nhwc else 3
                y = poison((th, tw, 4) if nhwc else (3, th, tw), dt)
                dev = [torch.from_numpy(p.copy()).to(DEV) for p in planes]
                tabs = [torch.from_numpy(t.view(np.int32).copy()).to(DEV) for t in (cols, lines)]
                size = y.element_size()
                row = sum((p.shape[1] + 15) // 16 * 16 for p in planes)
                band = 4
                shared = (768 * size + 15) // 16 * 16 + 2 * band * row
                p = fill("PreprocessParams", plane0=dev[0], plane1=dev[1] if len(dev) > 1 else 0, plane2=dev[2] if len(dev) > 2 else 0, cols=tabs[0], lines=tabs[1], table=table.to(DEV), y=y, format=FORMATS.index(fmt),
                         width=w, height=h, stride0=planes[0].shape[1], stride1=planes[1].shape[1] if len(dev) > 1 else 0, stride2=planes[2].shape[1] if len(dev) > 2 else 0, tw=tw, th=th, left=left, top=top, win_w=rw, win_h=rh,
                         pad=114, y_ch=1 if nhwc else th * tw, y_row=tw * 4 if nhwc else tw, y_pix=4 if nhwc else 1, channels=ch, ty=DT[dt], bgr=bgr, band=band, **k)
                p._hold = (p._hold, dev, tabs)
                launch("image", "preprocess", p, -(-th // band), 256, shared)
                got = y[..., :3] if nhwc else y.permute(1, 2, 0)
                check(f"preprocess {fmt} {w}x{h}", got.float(), want.float(), 0)
                if nhwc: check(f"preprocess {fmt} spare", y[..., 3].float(), torch.zeros(th, tw), 0)
                if w == 1920:
                    for b in (1, 2, 4):
                        p.band = b
                        sh = (768 * size + 15) // 16 * 16 + 2 * b * row
                        us = graph_us(lambda: [D.launch("image", "preprocess", p, (-(-th // b),), 256, sh) for _ in range(10)]) / 10
                        say(f"preprocess {fmt} 1080p to 640 f16, band {b}: {us:.2f} us")

    def heads():
        g = torch.Generator(device="cpu").manual_seed(int(time.time()))
        maps = [(80, 8.0), (40, 16.0), (20, 32.0)]
        for (batch, nc, dt, bins) in ((2, 80, torch.float16, 16), (1, 3, torch.float32, 16), (1, 80, torch.float16, 1)):
            raw = [torch.randn(batch, s, s, 4 * bins + nc, generator=g).to(dt).to(DEV) for s, _ in maps]
            for r in raw: r[..., 4 * bins:] -= 3
            if bins == 1:
                for r in raw: r[..., :4].abs_()
            cells = sum(s * s for s, _ in maps)
            boxes, scores = [], []
            for r, (s, step) in zip(raw, maps):
                f = r.double().reshape(batch, s * s, -1)
                d = (torch.softmax(f[..., :64].reshape(batch, s * s, 4, 16), -1) * torch.arange(16, device=DEV)).sum(-1) if bins == 16 else f[..., :4]
                ax = torch.arange(s, device=DEV).repeat(s) + 0.5; ay = torch.arange(s, device=DEV).repeat_interleave(s) + 0.5
                x1, y1, x2, y2 = ax - d[..., 0], ay - d[..., 1], ax + d[..., 2], ay + d[..., 3]
                boxes.append(torch.stack([(x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1], 1) * step)
                scores.append(torch.sigmoid(f[..., 4 * bins:]).transpose(1, 2))
            want = torch.cat([torch.cat(boxes, 2), torch.cat(scores, 2)], 1)
            y = poison((batch, 4 + nc, cells), torch.float32)
            cap, conf, most = 8192, 0.6, 300
            cand = torch.zeros(batch, cap, 8, device=DEV); counts = torch.zeros(batch, dtype=torch.int32, device=DEV)
            kw = dict(candidates=cand, counts=counts, width=[m[0] for m in maps], height=[m[0] for m in maps], box_pix=[4 * bins + nc] * 3, score_pix=[4 * bins + nc] * 3, step=[m[1] for m in maps],
                      scales=3, batch=batch, cells=cells, classes=nc, bins=bins, t=DT[dt], ty=0, y_img=(4 + nc) * cells, y_ch=cells, y_cell=1, capacity=cap, conf=conf)
            p = fill("YoloHeadParams", y=y, **kw)
            for i, r in enumerate(raw): p.boxes[i], p.scores[i] = r.data_ptr(), r.data_ptr() + 4 * bins * r.element_size()
            launch("head", "yolo_head", p, batch * -(-cells // 32), 1024, (4 + nc) * 33 * 4)
            check(f"yolo_head y {nc} {bins}", y, want, 2e-6)
            n1 = counts.clone()
            first = cand.clone()
            counts.zero_()
            q = fill("DetectParams", x=y, candidates=cand, counts=counts, batch=batch, cells=cells, classes=nc, x_img=(4 + nc) * cells, x_ch=cells, x_cell=1, t=0, first=4, objectness=-1, capacity=cap, conf=conf)
            launch("head", "detect", q, -(-batch * cells // 128), 128)
            if DRY: continue
            for b in range(batch):
                # The same candidates by both ways, by cell and class.
                m = int(n1[b]); assert m == int(counts[b]), (m, int(counts[b]))
                a, c = first[b, :m], cand[b, :m]
                o1, o2 = a.view(torch.int32)[:, 6].sort().indices, c.view(torch.int32)[:, 6].sort().indices
                check(f"candidates {b}", c[o2][:, :5], a[o1][:, :5], 1e-6)
                check(f"candidates classes {b}", c.view(torch.int32)[o2][:, 5:7], a.view(torch.int32)[o1][:, 5:7], 0)
                best = y[b, 4:].max(0)
                check(f"candidates count {b}", torch.tensor(m), (best.values > conf).sum(), 0)
            for agnostic, limit in ((0, 0.45), (1, 0.3)):
                keepc = cand.clone(); keepn = counts.clone()
                kept, kc, scratch = torch.zeros(batch, most, 8, device=DEV), torch.zeros(batch, 2, dtype=torch.int32, device=DEV), torch.zeros(batch, cap, 8, device=DEV)
                nm = fill("NmsParams", candidates=keepc, counts=keepn, kept=kept, kept_counts=kc, scratch=scratch, batch=batch, capacity=cap, most=most, agnostic=agnostic, limit=limit)
                launch("head", "nms", nm, batch, 1024, cap * 10 + 512 * 84)
                for b in range(batch):
                    m = int(counts[b])
                    a = cand[b, :m].cpu().numpy(); ids = cand[b, :m].view(torch.int32).cpu().numpy()
                    order = np.lexsort((ids[:, 6], ids[:, 5], -a[:, 4]))
                    bx, cl = a[order, :4], ids[order, 5]
                    f = np.float32
                    area = np.maximum(bx[:, 2] - bx[:, 0], f(0)) * np.maximum(bx[:, 3] - bx[:, 1], f(0))
                    dead = np.zeros(m, bool); out = []
                    for i in range(m):
                        if dead[i]: continue
                        out.append(order[i])
                        if len(out) == most: break
                        w = np.maximum(np.minimum(bx[i, 2], bx[i + 1:, 2]) - np.maximum(bx[i, 0], bx[i + 1:, 0]), f(0)); h = np.maximum(np.minimum(bx[i, 3], bx[i + 1:, 3]) - np.maximum(bx[i, 1], bx[i + 1:, 1]), f(0))
                        both = w * h; un = area[i] + area[i + 1:] - both
                        dead[i + 1:] |= (np.where(un > 0, both / np.where(un > 0, un, 1), 0) > f(limit)) & ((cl[i + 1:] == cl[i]) | bool(agnostic))
                    check(f"nms kept {b} {agnostic}", torch.tensor(int(kc[b, 0])), torch.tensor(len(out)), 0)
                    check(f"nms boxes {b} {agnostic} ({m} candidates)", kept[b, :len(out)].view(torch.int32)[:, [0, 1, 2, 3, 4, 5, 6]], torch.from_numpy(ids[out][:, :7]), 0)
            if nc == 80 and bins == 16:
                p.y = 0; p.batch = 1
                us = graph_us(lambda: [D.launch("head", "yolo_head", p, (-(-cells // 32),), 1024, (4 + nc) * 33 * 4) for _ in range(10)]) / 10
                for count in (300, 1000, 4000):
                    keepn = torch.zeros(1, dtype=torch.int32, device=DEV)
                    nm.counts = keepn.data_ptr(); nm.batch = 1
                    src = torch.rand(1, cap, 8, device=DEV) * 600; src[..., 2:4] = src[..., :2] + 40; src[..., 4] = torch.rand(1, cap, device=DEV); src.view(torch.int32)[..., 5] = torch.randint(0, 80, (1, cap), device=DEV).int(); src.view(torch.int32)[..., 6] = torch.arange(cap, device=DEV).int()
                    nm.candidates = src.data_ptr(); nm.agnostic = 0
                    t = graph_us(lambda: [(keepn.fill_(count), D.launch("head", "nms", nm, (1,), 1024, cap * 10 + 512 * 84)) for _ in range(5)]) / 5
                    t0 = graph_us(lambda: [keepn.fill_(count) for _ in range(5)]) / 5
                    say(f"nms of {count} candidates: {t - t0:.1f} us; yolo_head to candidates: {us:.1f} us")

    def ops():
        for f in (elementwise, moves, reduces, products, sampling, pools, convs, pictures, heads):
            t = time.time()
            try: f()
            except Exception:
                import traceback
                say("FAILED", f.__name__, traceback.format_exc()[-1500:])
            note(f"{f.__name__}: {time.time() - t:.1f} s")
        bad = [r for r in results if not r[1]]
        say(f"ops: {len(results)} checks, bad {len(bad)}" + (": " + ", ".join(r[0] for r in bad[:20]) if bad else ""))
    B["GROUPS"]["ops"] = ops
