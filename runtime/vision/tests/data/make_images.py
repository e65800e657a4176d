#!/usr/bin/env python3
"""Makes the small image files of this folder and `images.json`, what they must decode to. Needs Pillow and numpy.

The picture is made from formulas, so it is the project's own. Lossless files: the CRC-32 of the upright RGB bytes by the
rules of the `image` module, computed here from the samples, not by a decoder. JPEG and lossy files: Pillow's decode,
given at sixteen points.
"""
import io, json, os, zlib
import numpy as np
from PIL import Image, ImageOps

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "images")
os.makedirs(OUT, exist_ok=True)
W, H = 40, 24
yy, xx = np.mgrid[0:H, 0:W]
rgb16 = np.stack([xx * 1680, yy * 2849, 65535 - (xx * 20 + yy * 30) * 40], -1).clip(0, 65535).astype(np.uint16)
rgb = (rgb16.astype(float) / 257).round().astype(np.uint8)
gray = ((xx * 7 + yy * 11) % 256).astype(np.uint8)
gray16 = ((xx * 1700 + yy * 900) % 65536).astype(np.uint16)
alpha = ((xx * 13 + yy * 5) % 256).astype(np.uint8)
expected = []


def entry(name, want, lossy, note=""):
    want = np.ascontiguousarray(want.astype(np.uint8))
    h, w = want.shape[:2]
    e = {"file": name, "width": w, "height": h}
    if lossy:
        e["points"] = [[int(x), int(y), *map(int, want[y, x])] for x in (1, w // 3, w // 2 + 3, w - 2) for y in (1, h // 3, h // 2 + 2, h - 2)]
    else:
        e["crc32"] = zlib.crc32(want.tobytes())
    expected.append(e)


def rep(g):
    return np.repeat(g[..., None], 3, -1)


def over_white(c, a):
    return (c.astype(int) * a[..., None].astype(int) + 255 * (255 - a[..., None].astype(int)) + 127) // 255


def path(n):
    return os.path.join(OUT, n)


def jpeg(name, im, **kw):
    im.save(path(name), "JPEG", **kw)
    with Image.open(path(name)) as j:
        entry(name, np.asarray(ImageOps.exif_transpose(j).convert("RGB")), True)


color = Image.fromarray(rgb)
jpeg("rgb.jpg", color, quality=90)
jpeg("rgb_444.jpg", color, quality=95, subsampling=0)
jpeg("progressive.jpg", color, quality=90, progressive=True)
jpeg("gray.jpg", Image.fromarray(gray // 2 + xx.astype(np.uint8)), quality=95)
for o in range(1, 9):
    ex = Image.Exif()
    ex[0x0112] = o
    jpeg(f"exif{o}.jpg", color, quality=90, exif=ex)

# Inks with a real black channel; Pillow stores them inverted with an Adobe marker, as is the custom.
ink = 255 - rgb.astype(int)
k = ink.min(-1) // 2
cmy = ((ink - k[..., None]) * 255 // np.maximum(255 - k[..., None], 1)).clip(0, 255)
cmyk = np.concatenate([cmy, k[..., None]], -1).astype(np.uint8)
jpeg("cmyk.jpg", Image.fromarray(cmyk, "CMYK"), quality=95)
# YCCK: Pillow does not write it, so Y, Cb, Cr, K are stored as if they were inks and the marker's transform is set to 2.
ycc = np.asarray(Image.fromarray(cmy.astype(np.uint8)).convert("YCbCr"))
stored = np.concatenate([ycc, 255 - k[..., None].astype(np.uint8)], -1)
b = io.BytesIO()
Image.fromarray(255 - stored, "CMYK").save(b, "JPEG", quality=95)
raw = bytearray(b.getvalue())
raw[raw.index(b"Adobe") + 11] = 2
open(path("ycck.jpg"), "wb").write(raw)
entry("ycck.jpg", np.asarray(Image.open(path("ycck.jpg")).convert("RGB")), True)

color.save(path("rgb.png"))
entry("rgb.png", rgb, False)
Image.fromarray(gray).save(path("gray.png"))
entry("gray.png", rep(gray), False)
bits = (xx + yy) % 3 == 0
Image.fromarray(bits).save(path("gray1.png"))
entry("gray1.png", rep(bits * 255), False)
Image.fromarray(gray16).save(path("gray16.png"))
entry("gray16.png", rep(np.floor(gray16 / 257 + 0.5)), False)
Image.fromarray(np.stack([gray, alpha], -1), "LA").save(path("gray_alpha.png"))
entry("gray_alpha.png", over_white(rep(gray), alpha), False)
Image.fromarray(np.concatenate([rgb, alpha[..., None]], -1), "RGBA").save(path("rgba.png"))
entry("rgba.png", over_white(rgb, alpha), False)
pal = color.quantize(16)
lut = np.array(pal.getpalette()[: 16 * 3]).reshape(-1, 3)
index = np.asarray(pal)
pal.save(path("palette.png"))
entry("palette.png", lut[index], False)
trns = np.full(16, 255, np.uint8)
trns[3], trns[5] = 0, 100
pal.save(path("palette_alpha.png"), transparency=trns.tobytes())
entry("palette_alpha.png", over_white(lut[index], trns[index]), False)
ex = Image.Exif()
ex[0x0112] = 6
color.save(path("exif6.png"), exif=ex)
entry("exif6.png", np.rot90(rgb, -1), False)


def png16(name, samples, kind):
    """A 16-bit PNG, which Pillow does not write: every row with filter 0."""
    import struct
    h, w = samples.shape[:2]
    rows = b"".join(b"\0" + samples[y].astype(">u2").tobytes() for y in range(h))
    chunk = lambda t, d: struct.pack(">I", len(d)) + t + d + struct.pack(">I", zlib.crc32(t + d))
    head = struct.pack(">IIBBBBB", w, h, 16, kind, 0, 0, 0)
    open(path(name), "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b""))


png16("rgb16.png", rgb16, 2)
entry("rgb16.png", np.floor(rgb16 / 257 + 0.5), False)
a16 = alpha.astype(np.uint16) * 257
png16("rgba16.png", np.concatenate([rgb16, a16[..., None]], -1), 6)
entry("rgba16.png", over_white(np.floor(rgb16 / 257 + 0.5), alpha), False)

color.save(path("rgb.webp"), lossless=True)
entry("rgb.webp", rgb, False)
Image.fromarray(np.concatenate([rgb, np.maximum(alpha, 1)[..., None]], -1), "RGBA").save(path("rgba.webp"), lossless=True, exact=True)
entry("rgba.webp", over_white(rgb, np.maximum(alpha, 1)), False)
color.save(path("lossy.webp"), quality=90)
entry("lossy.webp", np.asarray(Image.open(path("lossy.webp")).convert("RGB")), True)
color.save(path("rgb.bmp"))
entry("rgb.bmp", rgb, False)
pal.save(path("palette.bmp"))
entry("palette.bmp", lut[index], False)
color.save(path("rgb.tiff"), compression="tiff_lzw")
entry("rgb.tiff", rgb, False)
Image.fromarray(gray16).save(path("gray16.tiff"))
entry("gray16.tiff", rep(np.floor(gray16 / 257 + 0.5)), False)
color.save(path("orientation8.tiff"), tiffinfo={274: 8})
entry("orientation8.tiff", np.rot90(rgb, 1), False)
Image.fromarray(cmyk, "CMYK").save(path("cmyk.tiff"), compression="tiff_lzw")
entry("cmyk.tiff", np.floor((255 - cmyk[..., :3].astype(float)) * (255 - cmyk[..., 3:]) / 255 + 0.5), True)
with open(os.path.join(OUT, "images.json"), "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(e) for e in expected) + "\n]\n")
print(len(expected), "files,", sum(os.path.getsize(path(e["file"])) for e in expected), "bytes")
