"""Builds a unit of the kernels for the CPU (g++) and launches its kernels: see emulate.hpp.

Functions whose bodies are inline PTX are cut out of the source; emulate.hpp has them under the same names.
"""
import ctypes, hashlib, os, re, subprocess, tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
KERNELS = os.path.dirname(HERE)
CACHE = os.environ.get("EMULATE_CACHE", os.path.join(tempfile.gettempdir(), "saltica-emulate"))

def body_end(text, start):
    depth = 0
    for i in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        if depth == 0 and text[i] == "}":
            return i + 1
    raise ValueError("no end")

def without_asm(text):
    out, at = [], 0
    for m in re.finditer(r"^(?:template <int N>\n)?DEV [\w ]+?\b(\w+)\([^;{]*\)\s*\{", text, re.M):
        if m.start() < at:
            continue
        end = body_end(text, m.end() - 1)
        if "asm" in text[m.end():end] and m[1] not in ("store_f64", "load_l2"):
            out.append(text[at:m.start()])
            at = end
    return "".join(out) + text[at:]

def source(unit):
    done = set()
    def paste(name):
        if name in done:
            return ""
        done.add(name)
        text = open(os.path.join(KERNELS, name)).read().replace("#pragma once", "")
        return re.sub(r'#include "(\w+\.cuh)"', lambda m: paste(m[1]), text)
    text = paste(unit + ".cu")
    text = text.replace("#define DEV static __device__ __forceinline__", "#define DEV static inline")
    text = without_asm(text)
    text = re.sub(r'asm\("cvt\.rn\.f16\.f64 .*?\)\);', "h = emu_bits<u16>((emu_half)v);", text)
    text = re.sub(r"DEV Vec4 load_l2\(u64 addr\) \{.*?\n\}", "DEV Vec4 load_l2(u64 addr) { return *(const Vec4*)addr; }", text, flags=re.S)
    for name, e, n in (("MaxF16", "emu_half", 2), ("MaxI8", "i8", 4), ("MaxU8", "u8", 4)):
        text = re.sub(r"(struct %s \{.*?)DEV u32 best\(u32 a, u32 b\) \{.*?\n    \}\n\};" % name, r"\1static u32 best(u32 a, u32 b) { return emu_max<%s, %d>(a, b); }\n};" % (e, n), text, flags=re.S)
    for name, acc, e, n in (("Half72", "f32", "emu_half", 8), ("Int72", "i32", "i8", 2)):
        head = f"struct {name} {{"
        if head in text:
            i = text.index(head)
            j = text.index("\n};", i) + 3
            w = f"EmuWmma<{acc}, {e}>"
            text = text[:i] + f"""{head} typedef {acc} Acc; static constexpr int BYTES = {2 if n == 8 else 1}, FRAG = {n}; static constexpr bool QUANT = {'false' if n == 8 else 'true'};
    static void load_a(u32 (&r)[{n}], u32 a, u32 s) {{ {w}::load(r, a, s); }} static void load_b(u32 (&r)[{n}], u32 a, u32 s) {{ {w}::load(r, a, s); }}
    static void mma({acc} (&d)[8], const u32 (&a)[{n}], const u32 (&b)[{n}]) {{ {w}::mma(d, a, b); }} static void put(u32 a, const {acc} (&d)[8], u32 s) {{ {w}::put(a, d, s); }} }};""" + text[j:]
    text = re.sub(r"extern __shared__ __align__\(\d+\) ([\w ]+?) ?(\w+)\[\];", r"\1* \2 = (\1*)emu_shared;", text)
    assert "asm" not in re.sub(r"//.*", "", text), re.findall(r".*asm.*", text)[:5]
    body = '#include "emulate.hpp"\n' + text
    # One entry a kernel.
    names = re.findall(r'(?:KERNEL|extern "C" __global__ void)\s+(?:__launch_bounds__\([^)]*\) )?(\w+)\(const __grid_constant__ (\w+) p\)', re.sub(r"(?m)^#define.*(\\\n.*)*", "", text))
    for macro in re.finditer(r"^#define (\w+)\(NAME[^)]*\)(?:[^\n]*\\\n)*[^\n]*", text, re.M):
        struct = re.search(r"__grid_constant__ (\w+) p", macro[0])
        for m in re.finditer(r"^%s\((\w+)," % macro[1], text, re.M):
            names.append((m[1], struct[1]))
    for macro in re.finditer(r"^#define INDEXED\(", text, re.M):
        for size in re.findall(r"^INDEXED\((\w+),", text, re.M):
            names += [("gather_" + size, "GatherParams"), ("scatter_" + size, "GatherParams")]
    for name, struct in names:
        if name in ("NAME",) or "##" in name or name.endswith("_"):
            continue
        body += f'\nextern "C" void run_{name}(const void* p, unsigned x, unsigned y, unsigned z, unsigned t) {{ emu_launch([](const void* q) {{ {name}(*(const {struct}*)q); }}, p, x, y, z, t); }}'
    return body + "\n"

LIBRARIES = {}

def library(unit):
    if unit not in LIBRARIES:
        text = source(unit)
        key = hashlib.sha256((text + open(os.path.join(HERE, "emulate.hpp")).read()).encode()).hexdigest()[:16]
        os.makedirs(CACHE, exist_ok=True)
        path = os.path.join(CACHE, f"{unit}-{key}")
        if not os.path.exists(path + ".so"):
            open(path + ".cpp", "w").write(text)
            subprocess.run(["g++", "-std=c++17", "-O1", "-w", "-fPIC", "-shared", "-ffp-contract=off", "-mf16c", "-mfma", "-msse2", "-fno-strict-aliasing", "-fno-exceptions", "-fno-stack-protector", "-fcf-protection=none", "-I", HERE,
                            "-o", path + ".so.new", path + ".cpp", "-lm"], check=True)
            os.rename(path + ".so.new", path + ".so")
        LIBRARIES[unit] = ctypes.CDLL(path + ".so")
    return LIBRARIES[unit]

def launch(unit, name, params, grid, block):
    getattr(library(unit), "run_" + name)(ctypes.byref(params), *[ctypes.c_uint(g) for g in grid], ctypes.c_uint(block))
