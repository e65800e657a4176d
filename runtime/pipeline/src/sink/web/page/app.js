"use strict";
// One stream brings every picture and the status: a line of JSON a message, behind it the bytes of a JPEG if it says so.

const $ = (id) => document.getElementById(id);
const cards = new Map(); // source_id -> Card
const show = { boxes: true, labels: true, trails: true, pause: false };
let focused = null; // the source shown alone
let abort = null;
let history = []; // of status messages, for rates
const TRAIL = 40, TRAIL_MS = 3000, RATE_MS = 3000;

// The same colours as in annotated pictures: hues a golden angle apart, in three brightnesses.
function color(classId) {
  const hue = ((classId * 0.618033988749895 + 0.02) % 1) * 6;
  const [s, v] = [[0.95, 0.95], [0.6, 1], [1, 0.65]][Math.floor(classId / 8) % 3];
  const channel = (n) => {
    const k = (n + hue) % 6;
    return Math.round((v - v * s * Math.max(0, Math.min(k, 4 - k, 1))) * 255);
  };
  return [channel(5), channel(3), channel(1)];
}

const number = (n) => (n >= 100 ? n.toFixed(0) : n >= 9.95 ? n.toFixed(0) : n.toFixed(1));
const count = (n) => n.toLocaleString("en");

function withUnit(element, value, unit) {
  element.textContent = value;
  if (unit) {
    const small = document.createElement("small");
    small.textContent = unit;
    element.append(small);
  }
}

function age(element, ms) {
  if (ms == null) return withUnit(element, "–");
  if (ms < 1000) return withUnit(element, ms < 9.95 ? ms.toFixed(1) : ms.toFixed(0), "ms");
  withUnit(element, number(ms / 1000), "s");
}

function duration(s) {
  const [d, h, m] = [Math.floor(s / 86400), Math.floor(s / 3600) % 24, Math.floor(s / 60) % 60];
  return d ? `${d} d ${h} h` : h ? `${h} h ${m} min` : m ? `${m} min` : `${Math.floor(s)} s`;
}

class Card {
  constructor(id) {
    this.id = id;
    this.root = $("card").content.firstElementChild.cloneNode(true);
    this.canvas = this.root.querySelector("canvas");
    this.context = this.canvas.getContext("2d", { alpha: false });
    this.frame = this.root.querySelector(".frame");
    this.waiting = this.root.querySelector(".waiting");
    this.title = this.root.querySelector("h2");
    this.state = this.root.querySelector(".state");
    this.reason = this.root.querySelector(".reason");
    this.found = this.root.querySelector(".found");
    this.grow = this.root.querySelector(".grow");
    this.numbers = Object.fromEntries([...this.root.querySelectorAll("[data-n]")].map((e) => [e.dataset.n, e]));
    this.trails = new Map();
    this.busy = false;
    this.pending = null;
    this.bitmap = null;
    this.result = null;
    this.frame.classList.add("dim");
    this.grow.addEventListener("click", () => focus(focused === this.id ? null : this.id));
    this.setGrown(false);
  }

  setGrown(grown) {
    this.grow.textContent = grown ? "Show all" : "Enlarge";
    this.grow.setAttribute("aria-pressed", String(grown));
  }

  status(s, fps) {
    this.name = s.source;
    this.title.textContent = s.source;
    this.title.title = s.source;
    this.grow.setAttribute("aria-label", `${focused === this.id ? "Show all sources instead of" : "Enlarge"} ${s.source}`);
    this.state.textContent = s.state;
    this.state.className = "state " + tone(s.state);
    const live = s.state === "streaming";
    this.live = live;
    this.reason.textContent = live || !s.reason ? "" : s.reason;
    if (fps == null) withUnit(this.numbers.fps, "–");
    else withUnit(this.numbers.fps, number(fps), "fps");
    age(this.numbers.age, s.frame_age_ms);
    withUnit(this.numbers.batch, s.batch == null ? "–" : String(s.batch));
    withUnit(this.numbers.dropped, count(s.dropped));
    const stale = !live || s.last_ms == null || s.last_ms > 5000;
    this.frame.classList.toggle("dim", stale || !this.bitmap);
    this.waiting.textContent = !stale ? "Waiting for a picture"
      : live ? "No result yet" : `${s.state[0].toUpperCase()}${s.state.slice(1)} for ${duration(s.since_ms / 1000)}`;
    this.describe(stale);
  }

  describe(stale) {
    if (!this.result || stale) {
      this.found.textContent = "";
      this.canvas.setAttribute("aria-label", `Picture of ${this.name}: ${this.waiting.textContent}`);
      return;
    }
    const tally = new Map();
    for (const d of this.result.detections) tally.set(d.class, (tally.get(d.class) || 0) + 1);
    const words = [...tally].sort((a, b) => b[1] - a[1]).map(([name, n]) => `${n} × ${name}`);
    this.found.textContent = words.join(", ") || "Nothing found";
    this.canvas.setAttribute("aria-label", `Picture of ${this.name}: ${words.join(", ") || "nothing found"}`);
  }

  async picture(result, jpeg) {
    // While one picture is decoded only the newest of those behind it is kept.
    if (this.busy) {
      this.pending = [result, jpeg];
      return;
    }
    this.busy = true;
    try {
      const bitmap = await createImageBitmap(new Blob([jpeg], { type: "image/jpeg" }));
      if (this.bitmap) this.bitmap.close();
      this.bitmap = bitmap;
      this.result = result;
      this.follow(result);
      this.draw();
      // One that was on its way when the source went away does not count as live.
      if (this.live) this.frame.classList.remove("dim");
    } catch (e) {
      console.warn("a picture that cannot be shown", e);
    }
    this.busy = false;
    if (this.pending) {
      const next = this.pending;
      this.pending = null;
      this.picture(...next);
    }
  }

  follow(result) {
    const now = result.captured_ms;
    for (const d of result.detections) {
      if (d.track_id == null) continue;
      const trail = this.trails.get(d.track_id) || [];
      trail.push([(d.box[0] + d.box[2]) / 2, d.box[3], now]);
      if (trail.length > TRAIL) trail.shift();
      this.trails.set(d.track_id, trail);
    }
    for (const [id, trail] of this.trails) {
      const last = trail[trail.length - 1][2];
      if (now - last > 1000 || now < last) this.trails.delete(id);
    }
  }

  draw() {
    const { bitmap, result, canvas, context: c } = this;
    if (!bitmap || !result) return;
    // As many pixels as the screen shows, so that lines and letters are sharp; at least the picture's own.
    const shown = canvas.clientWidth * (window.devicePixelRatio || 1);
    const width = Math.round(Math.min(Math.max(bitmap.width, shown), 2560)) || bitmap.width;
    const height = Math.round((width * bitmap.height) / bitmap.width);
    if (canvas.width !== width || canvas.height !== height) {
      canvas.width = width;
      canvas.height = height;
    }
    c.drawImage(bitmap, 0, 0, width, height);
    const k = width / result.width;
    const dot = Math.max(1, width / (canvas.clientWidth || width)); // canvas pixels of one CSS pixel
    const line = 2 * dot;
    const objects = [...result.detections].reverse();
    c.lineJoin = "round";
    c.lineCap = "round";
    if (show.trails) {
      for (const d of objects) {
        const trail = d.track_id == null ? null : this.trails.get(d.track_id);
        if (!trail || trail.length < 2) continue;
        const rgb = color(d.class_id).join(",");
        c.lineWidth = line;
        for (let i = 1; i < trail.length; i++) {
          const old = Math.max(0, 1 - (result.captured_ms - trail[i][2]) / TRAIL_MS);
          c.strokeStyle = `rgba(${rgb},${old.toFixed(2)})`;
          c.beginPath();
          c.moveTo(trail[i - 1][0] * k, trail[i - 1][1] * k);
          c.lineTo(trail[i][0] * k, trail[i][1] * k);
          c.stroke();
        }
      }
    }
    if (show.boxes) {
      for (const d of objects) {
        const [r, g, b] = color(d.class_id);
        c.beginPath();
        if (d.oriented) {
          const { center: [x, y], size: [w, h], angle } = d.oriented;
          const [sin, cos] = [Math.sin(angle), Math.cos(angle)];
          for (const [u, v] of [[-1, -1], [1, -1], [1, 1], [-1, 1]]) {
            c.lineTo((x + (u * w * cos - v * h * sin) / 2) * k, (y + (u * w * sin + v * h * cos) / 2) * k);
          }
          c.closePath();
        } else {
          const [x1, y1, x2, y2] = d.box.map((v) => v * k);
          c.rect(x1, y1, x2 - x1, y2 - y1);
        }
        c.strokeStyle = "rgba(0,0,0,.45)";
        c.lineWidth = line + 2 * dot;
        c.stroke();
        c.strokeStyle = `rgb(${r},${g},${b})`;
        c.lineWidth = line;
        c.stroke();
        for (const p of d.keypoints) {
          if (p.score <= 0.5) continue;
          c.beginPath();
          c.arc(p.x * k, p.y * k, 2.5 * dot, 0, 7);
          c.fillStyle = `rgb(${r},${g},${b})`;
          c.fill();
        }
      }
    }
    if (show.labels) {
      const size = Math.round((canvas.clientWidth < 500 ? 11 : 13) * dot);
      c.font = `600 ${size}px system-ui, sans-serif`;
      c.textBaseline = "middle";
      for (const { x, y, w, h, text, d } of this.plates(c, k, dot, size, width, height)) {
        const [r, g, b] = color(d.class_id);
        c.fillStyle = `rgb(${r},${g},${b})`;
        c.fillRect(x, y, w, h);
        c.fillStyle = 0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#000" : "#fff";
        c.fillText(text, x + 4 * dot, y + h / 2 + dot / 2);
      }
    }
    withUnit(this.numbers.objects, String(result.detections.length));
  }

  // Where labels go, best object first: above the box, unless that covers a better one's label and another place does not.
  plates(c, k, dot, size, width, height) {
    const placed = [];
    for (const d of this.result.detections) {
      const [left, top, right, bottom] = d.box.map((v) => v * k);
      // A small box far away gets no label, a middling one no score: they would hide their neighbours.
      if (right - left < 14 * dot) continue;
      const track = d.track_id == null ? "" : ` #${d.track_id}`;
      const text = right - left > 60 * dot ? `${d.class}${track} ${Math.round(d.score * 100)}%` : `${d.class}${track}`;
      const [w, h] = [c.measureText(text).width + 8 * dot, size * 1.45];
      const at = (x, y) => ({ x: Math.max(0, Math.min(x, width - w)), y, w, h, text, d });
      const usual = at(left - dot, top >= h ? top - h : top);
      const free = (a) => a.y >= 0 && a.y + h <= height
        && !placed.some((b) => a.x < b.x + b.w && b.x < a.x + w && a.y < b.y + b.h && b.y < a.y + h);
      const others = [at(right + dot - w, top - h), at(left - dot, bottom), at(right + dot - w, bottom), at(left - dot, top)];
      placed.push([usual, ...others].find(free) || usual);
    }
    return placed.reverse();
  }
}

function tone(state) {
  return { streaming: "is-good", ready: "is-good", working: "is-good", opening: "", starting: "", ended: "" }[state]
    ?? (state === "reconnecting" || state === "stalled" || state === "degraded" ? "is-warn" : "is-bad");
}

// Results a second, from the counts of now and of some seconds ago.
function rate(now, id) {
  const results = (s) => {
    if (id == null) return s.sources.reduce((sum, x) => sum + x.results, 0);
    return s.sources.find((x) => x.source_id === id)?.results ?? 0;
  };
  const then = history.find((s) => now.time_ms - s.time_ms <= RATE_MS + 500);
  if (!then || now.time_ms - then.time_ms < 500) return null;
  return Math.max(0, ((results(now) - results(then)) * 1000) / (now.time_ms - then.time_ms));
}

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function onStatus(s) {
  if (history.length && s.time_ms < history[history.length - 1].time_ms) history = [];
  history = history.filter((h) => s.time_ms - h.time_ms <= RATE_MS + 2000);
  for (const source of s.sources) {
    let card = cards.get(source.source_id);
    if (!card) {
      card = new Card(source.source_id);
      cards.set(source.source_id, card);
      $("sources").append(card.root);
      arrange();
    }
    card.status(source, rate(s, source.source_id));
  }
  const total = rate(s, null);
  if (total == null) withUnit($("t-fps"), "–");
  else withUnit($("t-fps"), number(total), "fps");
  const active = s.sources.filter((x) => x.frame_age_ms != null && x.state === "streaming");
  age($("t-age"), active.length ? Math.max(...active.map((x) => x.frame_age_ms)) : null);
  withUnit($("t-batch"), active.length ? String(Math.max(...active.map((x) => x.batch))) : "–");
  withUnit($("t-sources"), `${s.sources.filter((x) => x.state === "streaming").length}/${s.sources.length}`);
  history.push(s);
  // Alone on the page it is shown large, which the first stream could not know.
  if (s.sources.length === 1 && focused == null && streaming == null) connect();

  const health = $("health");
  setText(health, s.health.status);
  health.className = "pill " + (s.health.status === "degraded" && !s.health.working ? "is-bad" : tone(s.health.status));
  const reasons = $("reasons");
  const lines = s.health.reasons.map((r) => {
    const li = document.createElement("li");
    const b = document.createElement("b");
    b.textContent = r.about;
    li.append(b, ` ${r.reason}`);
    return li;
  });
  reasons.hidden = lines.length === 0;
  reasons.replaceChildren(...lines);
  $("sinks").replaceChildren(...s.sinks.map((x) => {
    const tr = document.createElement("tr");
    for (const text of [x.sink, x.state, count(x.results), count(x.dropped), count(x.failed)]) {
      const td = document.createElement("td");
      td.textContent = text;
      tr.append(td);
    }
    const badge = document.createElement("span");
    badge.className = "state " + tone(x.state === "failing" ? "degraded" : x.state);
    badge.textContent = x.state;
    tr.children[1].replaceChildren(badge);
    if (x.reason) tr.title = x.reason;
    return tr;
  }));
  setText($("about"), `Version ${s.version}, up ${duration(s.uptime_s)}`);
}

function arrange() {
  const only = focused == null && cards.size === 1 ? [...cards.keys()][0] : focused;
  $("sources").classList.toggle("one", only != null);
  for (const [id, card] of cards) {
    card.root.hidden = only != null && id !== only;
    card.setGrown(focused === id);
    card.grow.hidden = cards.size === 1;
    card.draw();
  }
}

function focus(id) {
  focused = id;
  arrange();
  connect();
}

function trouble(text) {
  $("banner").hidden = !text;
  if (text) {
    setText($("banner"), text);
    setText($("health"), "no connection");
    $("health").className = "pill is-bad";
  }
}

// Cuts the stream into messages.
async function read(stream) {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  let buffer = new Uint8Array(0);
  let head = null;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const joined = new Uint8Array(buffer.length + value.length);
    joined.set(buffer);
    joined.set(value, buffer.length);
    buffer = joined;
    for (;;) {
      if (!head) {
        const end = buffer.indexOf(10);
        if (end < 0) break;
        head = JSON.parse(decoder.decode(buffer.subarray(0, end)));
        buffer = buffer.subarray(end + 1);
      }
      const bytes = head.bytes || 0;
      if (buffer.length < bytes) break;
      const message = head;
      head = null;
      const body = buffer.slice(0, bytes);
      buffer = buffer.subarray(bytes);
      if (message.type === "status") onStatus(message);
      else if (message.type === "picture") {
        const card = cards.get(message.result.source_id);
        if (card && !card.root.hidden) card.picture(message.result, body);
      }
    }
  }
}

let connection = 0;
let streaming = null; // the source the stream shows alone
async function connect() {
  const mine = ++connection;
  if (abort) abort.abort();
  let pause = 500;
  while (mine === connection && !document.hidden && !show.pause) {
    abort = new AbortController();
    const only = focused != null ? focused : cards.size === 1 ? [...cards.keys()][0] : null;
    streaming = only;
    try {
      const answer = await fetch(only == null ? "/api/stream" : `/api/stream?source=${only}&size=large`, { signal: abort.signal });
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      trouble(null);
      pause = 500;
      await read(answer.body);
      throw new Error("the stream ended");
    } catch (e) {
      if (mine !== connection) return;
      history = [];
      trouble("No connection to Saltica. Trying again.");
      await new Promise((r) => setTimeout(r, pause));
      pause = Math.min(pause * 2, 8000);
    }
  }
}

for (const button of document.querySelectorAll("[data-toggle]")) {
  button.addEventListener("click", () => {
    const what = button.dataset.toggle;
    show[what] = !show[what];
    button.setAttribute("aria-pressed", String(show[what]));
    if (what === "pause") {
      if (show.pause) {
        connection++;
        if (abort) abort.abort();
        setText($("health"), "paused");
        $("health").className = "pill";
      } else connect();
    } else for (const card of cards.values()) card.draw();
  });
}
// Nothing is encoded for a page that nobody sees.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    connection++;
    if (abort) abort.abort();
  } else connect();
});
window.addEventListener("resize", () => cards.forEach((card) => card.draw()));
document.addEventListener("keydown", (e) => {
  if (e.key === "Escape" && focused != null) focus(null);
});
connect();
