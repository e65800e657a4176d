#!/usr/bin/env python3
"""Looks at the preview page in headless Chromium: as a desktop and as a phone, light and dark.

    python3 runtime/pipeline/tools/look.py [--out FOLDER] [--browser chromium] [--port 18099]

Builds and starts the example `sinks` with three simulated cameras, of which one comes and goes, and a broker that is not
there; checks what a person would (pictures move, nothing is cut off, buttons work, a lost connection is said and comes
back, nothing is loaded from elsewhere, no error on the console); writes screenshots to FOLDER. Needs nothing but Python,
cargo and Chromium (`apt-get install chromium`).
"""

import argparse
import base64
import json
import os
import pathlib
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[3]
SIZES = [("desktop-light", 1280, 900, 1, False, "light"), ("phone-dark", 390, 844, 2, True, "dark")]


class Browser:
    """A page of Chromium, by its DevTools protocol (a WebSocket of JSON)."""

    def __init__(self, program, profile, port):
        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             f"--remote-debugging-port={port}", f"--user-data-dir={profile}", "about:blank"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        page = until(60, "Chromium to start", lambda: self.page(port))
        path = page["webSocketDebuggerUrl"].split(str(port), 1)[1]
        self.socket = socket.create_connection(("127.0.0.1", port), 120)
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall(
            f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode())
        self.file = self.socket.makefile("rb")
        while self.file.readline() != b"\r\n":
            pass
        self.number, self.errors = 0, []
        for domain in ("Runtime", "Log", "Page"):
            self.call(f"{domain}.enable")

    @staticmethod
    def page(port):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json", timeout=5) as answer:
            return next(p for p in json.load(answer) if p["type"] == "page")

    def receive(self):
        data = b""
        while True:
            first, length = self.file.read(2)
            length &= 127
            if length == 126:
                (length,) = struct.unpack(">H", self.file.read(2))
            elif length == 127:
                (length,) = struct.unpack(">Q", self.file.read(8))
            data += self.file.read(length)
            if first & 0x80:
                return json.loads(data)

    def call(self, method, **parameters):
        self.number += 1
        data = json.dumps({"id": self.number, "method": method, "params": parameters}).encode()
        mask, n = os.urandom(4), len(data)
        head = bytes([0x80 | n]) if n < 126 else b"\xfe" + struct.pack(">H", n) if n < 65536 else b"\xff" + struct.pack(">Q", n)
        self.socket.sendall(b"\x81" + head + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(data)))
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                return answer.get("result", answer)
            told = answer.get("params", {})
            if answer.get("method") == "Runtime.exceptionThrown":
                self.errors.append(json.dumps(told)[:400])
            elif answer.get("method") == "Log.entryAdded" and told["entry"]["level"] == "error":
                self.errors.append(told["entry"]["text"] + " " + told["entry"].get("url", ""))

    def js(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise SystemExit(f"failed: {expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def screenshot(self, path):
        picture = self.call("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(picture["data"]))

    def close(self):
        self.process.terminate()
        self.process.wait()


def until(seconds, what, get):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if value := get():
                return value
        except (OSError, StopIteration, json.JSONDecodeError):
            pass
        time.sleep(0.2)
    raise SystemExit(f"failed: waited {seconds} s for {what}")


def check(is_so, what):
    print("ok     " if is_so else "FAILED ", what, flush=True)
    if not is_so:
        raise SystemExit(1)


class Program:
    def __init__(self, port):
        self.command = [
            str(ROOT / "target/release/examples/sinks"), "sim:street?seed=7", "sim:street?seed=2&light=dusk",
            "sim:street?seed=5&light=night", "--preview", f":{port}", "--sink", "mqtt://127.0.0.1:1/nobody",
            "--trouble", "--fps", "5"]
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stderr=subprocess.DEVNULL)

    def stop(self):
        self.process.kill()
        self.process.wait()


# A few points of a canvas: different when another picture is shown.
PIXELS = """(() => { const c = document.querySelector('.card:not([hidden]) canvas');
  const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; let h = 0;
  for (let i = 0; i < d.length; i += 997) h = (h * 31 + d[i]) | 0; return h; })()"""


def look(browser, program, url, out, name, width, height, scale, phone, theme):
    print(f"{name}: {width}x{height}", flush=True)
    browser.errors.clear()
    browser.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=phone)
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
    browser.call("Page.navigate", url=url)
    shown = "document.querySelectorAll('.card .frame:not(.dim)').length"
    until(120, "pictures", lambda: browser.js(shown) == 3)
    first = browser.js(PIXELS)
    until(60, "the picture to move", lambda: browser.js(PIXELS) != first)
    until(60, "rates", lambda: "fps" in browser.js("document.getElementById('t-fps').textContent"))
    browser.screenshot(out / f"{name}.png")
    check(browser.js("document.documentElement.scrollWidth <= innerWidth"), "nothing is wider than the screen")
    label = browser.js("document.querySelector('canvas').getAttribute('aria-label')")
    check(label.startswith("Picture of sim:street?seed=7: "), f"pictures are described: {label}")
    low = 44 if phone else 36
    small = f"[...document.querySelectorAll('button')].filter(b => b.offsetHeight > 0 && b.offsetHeight < {low}).length"
    check(browser.js(small) == 0, f"buttons are at least {low} pixels high")
    check(browser.js("document.getElementById('reasons').textContent").startswith("mqtt://127.0.0.1:1/nobody failing"),
          "a sink that fails is named")
    origins = browser.js("performance.getEntriesByType('resource').map(r => new URL(r.name).origin)")
    check(all(o == url.rstrip("/") for o in origins), "nothing is loaded from elsewhere")

    before = browser.js(PIXELS)
    browser.js("document.querySelector('[data-toggle=pause]').click()")
    time.sleep(1)
    held = browser.js(PIXELS)
    browser.js("['boxes', 'labels', 'trails'].forEach(t => document.querySelector(`[data-toggle=${t}]`).click())")
    check(browser.js(PIXELS) != held, "boxes, labels and trails can be hidden")
    browser.js("['boxes', 'labels', 'trails'].forEach(t => document.querySelector(`[data-toggle=${t}]`).click())")
    check(browser.js(PIXELS) == held, "and shown again, while paused")
    browser.js("document.querySelector('[data-toggle=pause]').click()")
    until(60, "pictures after the pause", lambda: browser.js(PIXELS) not in (before, held))

    browser.js("document.querySelectorAll('.grow')[1].click()")
    visible = "[...document.querySelectorAll('.card')].filter(c => c.offsetHeight > 0).map(c => c.querySelector('h2').textContent).join()"
    check(browser.js(visible) == "sim:street?seed=2&light=dusk", "one source can be enlarged")
    first = browser.js(PIXELS)
    until(60, "the large picture to move", lambda: browser.js(PIXELS) != first)
    check(browser.js("document.documentElement.scrollWidth <= innerWidth"), "nor then is anything too wide")
    browser.screenshot(out / f"{name}-one.png")
    browser.js("document.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape' }))")
    check(browser.js(visible).count("sim:") == 3, "Escape shows all")

    until(60, "the third camera to vanish", lambda: "Reconnecting" in browser.js("document.querySelectorAll('.waiting')[2].textContent"))
    check("unplugged" in browser.js("document.querySelectorAll('.reason')[2].textContent"), "a camera's trouble is explained")
    browser.js("document.querySelectorAll('.card')[2].scrollIntoView()")
    browser.screenshot(out / f"{name}-trouble.png")
    check(not browser.errors, f"no error on the console {browser.errors}")

    program.stop()
    until(60, "the lost connection to be said", lambda: browser.js("!document.getElementById('banner').hidden"))
    program.start()
    until(120, "the connection to return", lambda: browser.js("document.getElementById('banner').hidden") and browser.js(shown) >= 2)
    print("ok      a lost connection is said, and returns")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "target/look")
    parser.add_argument("--browser", default="chromium")
    parser.add_argument("--port", type=int, default=18099)
    a = parser.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    build = ["cargo", "build", "--quiet", "--release", "-p", "saltica-pipeline", "--example", "sinks"]
    subprocess.run(build, cwd=ROOT, check=True)
    program = Program(a.port)
    with tempfile.TemporaryDirectory() as profile:
        browser = None
        try:
            browser = Browser(a.browser, profile, a.port + 1)
            for size in SIZES:
                look(browser, program, f"http://localhost:{a.port}/", a.out, *size)
        finally:
            program.stop()
            if browser:
                browser.close()
    print(f"screenshots: {a.out}")


if __name__ == "__main__":
    sys.exit(main())
