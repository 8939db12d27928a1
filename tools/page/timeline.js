// One or two recorded steps on a canvas: a lane per rank and stream, zoom from the whole step to the single operator.

/// Spans of a rank as typed arrays. Per span LEB128 numbers: the stream, the work, the change of the
/// micro-batch (zigzag), the gap since the last end on that stream (zigzag), the wait before the start, and the duration, ns.
function decodeSpans(rank) {
  const bytes = Uint8Array.from(atob(rank.spans), c => c.charCodeAt(0));
  const n = rank.count, out = { stream: new Uint16Array(n), work: new Uint32Array(n), mb: new Int32Array(n),
    arrival: new Float64Array(n), start: new Float64Array(n), end: new Float64Array(n) };
  const lastEnd = new Map();
  let at = 0, mb = 0;
  const number = () => { let value = 0, factor = 1, byte; do { byte = bytes[at++]; value += (byte & 127) * factor; factor *= 128; } while (byte & 128); return value; };
  const signed = () => { const value = number(); return value % 2 ? -(value + 1) / 2 : value / 2; };
  for (let i = 0; i < n; ++i) {
    const stream = out.stream[i] = number();
    out.work[i] = number();
    out.mb[i] = mb += signed();
    out.start[i] = (lastEnd.get(stream) || 0) + signed();
    out.arrival[i] = out.start[i] - number();
    out.end[i] = out.start[i] + number();
    lastEnd.set(stream, out.end[i]);
  }
  return out;
}

/// Works of a record with their layers: the file has works that differ only in their layer once.
function worksOf(record) {
  const works = [];
  for (let i = 0; i < record.uses.length; i += 2) works.push({ ...record.works[record.uses[i]], layer: record.uses[i + 1] });
  return works;
}
/// The lower edge of an operator's box says which pass it is of; forwards have none.
const PASS_COLOURS = { dgrad: "#cc3311", wgrad: "#444444", backward: "#cc3311" };
const runColour = run => run.part.startsWith("input gradient") ? INPUT_COLOUR : PHASE_COLOURS[run.phase];
const flopText = f => f >= 1e15 ? `${digits(f / 1e15)} PFLOP` : f >= 1e12 ? `${digits(f / 1e12)} TFLOP` : f >= 1e9 ? `${digits(f / 1e9)} GFLOP` : `${digits(f / 1e6)} MFLOP`;

/// Rows of a lane: indices of the spans of `wanted` streams in order of their start.
function laneOf(spans, wanted) {
  const list = [];
  for (let i = 0; i < spans.start.length; ++i) if (wanted(spans.stream[i])) list.push(i);
  return Uint32Array.from(list.sort((a, b) => spans.start[a] - spans.start[b]));
}

/// Runs of one template: drawn instead of operators that are thinner than a pixel or two.
function runsOf(record, spans, lane) {
  const runs = [];
  for (const i of lane) {
    const work = record.works[spans.work[i]], last = runs[runs.length - 1];
    if (last && last.part === work.part && last.mb === spans.mb[i]) last.end = spans.end[i];
    else runs.push({ part: work.part, phase: work.phase, mb: spans.mb[i], start: spans.start[i], end: spans.end[i] });
  }
  return runs;
}

class StepTimeline {
  /// records: [{ label, step_s, streams, works, uses, ranks: [{ name, first_layers, count, spans }] }]; two of them share the axis, rank by rank.
  constructor(records, canvas, about, sum) {
    this.records = records;
    this.canvas = canvas;
    this.about = about;
    this.sum = sum;
    this.pen = canvas.getContext("2d");
    this.whole = Math.max(...records.map(r => r.step_s)) * 1e9;
    this.state = { from: 0, to: this.whole, picked: null, everyStream: false, selects: false, range: null };
    for (const record of records) {
      record.works = worksOf(record);
      for (const rank of record.ranks) rank.decoded = decodeSpans(rank);
    }
    this.makeLanes();
    this.listen();
  }

  makeLanes() {
    this.lanes = [];
    const ranks = Math.max(...this.records.map(r => r.ranks.length));
    for (let rank = 0; rank < ranks; ++rank) this.records.forEach((record, at) => {
      if (!record.ranks[rank]) return;
      const spans = record.ranks[rank].decoded, add = (name, height, wanted, compute) => {
        const list = laneOf(spans, wanted);
        if (!list.length && !compute) return;
        this.lanes.push({ record, at, rank, name, height, spans, list, compute, runs: compute ? runsOf(record, spans, list) : null });
      };
      const name = this.records.length > 1 ? `${record.ranks[rank].name} ${record.label}` : record.ranks[rank].name;
      add(name, 20, s => s === 0, true);
      if (this.state.everyStream) record.streams.forEach((stream, s) => s > 0 && add(stream, 12, t => t === s, false));
      else add("", 8, s => s > 0, false);
    });
    let top = 22;
    this.lanes.forEach((lane, i) => { lane.top = top; top += lane.height + (this.lanes[i + 1]?.compute ? 5 : 1); });
    this.height = top + 6;
  }

  layout() {
    const ratio = window.devicePixelRatio || 1;
    this.width = this.canvas.clientWidth;
    this.left = this.width < 600 ? 78 : 130;
    this.canvas.width = this.width * ratio;
    this.canvas.height = this.height * ratio;
    this.canvas.style.height = `${this.height}px`;
    this.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.draw();
  }
  x(time) { return this.left + (time - this.state.from) / (this.state.to - this.state.from) * (this.width - this.left); }
  timeAt(px) { return this.state.from + (px - this.left) / (this.width - this.left) * (this.state.to - this.state.from); }

  draw() {
    const pen = this.pen, begin = performance.now();
    pen.clearRect(0, 0, this.width, this.height);
    this.ink = { ink: cssColour("--ink"), soft: cssColour("--soft"), line: cssColour("--line"), idle: cssColour("--idle"), mark: cssColour("--mark") };
    this.ruler();
    for (const lane of this.lanes) this.drawLane(lane);
    this.drawRange();
    this.drawMs = performance.now() - begin;
  }

  ruler() {
    const pen = this.pen, span = this.state.to - this.state.from;
    let step = 10 ** Math.floor(Math.log10(span / 6));
    for (const k of [2, 2.5, 2]) if (span / step > (this.width < 600 ? 4 : 9)) step *= k;
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "middle";
    pen.textAlign = "center";
    for (let i = Math.ceil(this.state.from / step); i * step <= this.state.to; ++i) {
      const x = this.x(i * step);
      pen.fillStyle = this.ink.soft;
      if (x < this.width - 30 && x > this.left + 10) pen.fillText(timeText(i * step * 1e-9, 4), x, 9);
      pen.fillStyle = this.ink.line;
      pen.fillRect(x, 18, 1, this.height);
    }
  }

  drawLane(lane) {
    const pen = this.pen, { top, height, list, spans } = lane, { from, to } = this.state;
    if (lane.name) {
      pen.font = lane.compute ? "12px system-ui, sans-serif" : "10px system-ui, sans-serif";
      pen.textAlign = "left";
      pen.fillStyle = lane.compute ? this.ink.ink : this.ink.soft;
      const name = this.width < 600 ? lane.name.replace(/^ranks? [^(]*\(([^)]*)\)/, "$1") : lane.name;  // "ranks 0-7 (pp 0)": "pp 0"
      pen.fillText(name, lane.compute ? 0 : 10, top + height / 2, this.left - (lane.compute ? 6 : 16));
    }
    pen.fillStyle = this.ink.idle;
    pen.fillRect(this.left, top, Math.max(0, Math.min(this.x(lane.record.step_s * 1e9), this.width) - this.left), height);  // to the end of its step
    const first = this.firstAfter(lane, from), scale = (this.width - this.left) / (to - from);
    const fewRuns = lane.runs && this.meanWidth(lane, first) < 2.5;
    pen.save();
    pen.beginPath();
    pen.rect(this.left, top, this.width - this.left, height);
    pen.clip();
    if (fewRuns) this.drawRuns(lane);
    else {
      let filled = -1;  // right end of what has been drawn: thinner spans before it are invisible
      for (let k = first; k < list.length; ++k) {
        const i = list[k];
        if (spans.arrival[i] > to && spans.start[i] > to) break;
        const left = this.left + (spans.start[i] - from) * scale, right = this.left + (spans.end[i] - from) * scale;
        const work = lane.record.works[spans.work[i]];
        if (!lane.compute && spans.start[i] > spans.arrival[i]) {  // it waits for others
          pen.fillStyle = this.ink.line;
          const begin = this.left + (spans.arrival[i] - from) * scale;
          if (left - begin > 0.5) pen.fillRect(begin, top + height / 2 - 1, left - begin, 2);
        }
        if (right <= filled + 0.25) continue;
        const wide = Math.max(right - left - (right - left > 3 ? 0.7 : 0), 0.6);
        pen.fillStyle = colourOf(work.kind);
        pen.fillRect(left, top, wide, height);
        if (lane.compute && PASS_COLOURS[work.pass]) { pen.fillStyle = PASS_COLOURS[work.pass]; pen.fillRect(left, top + height - 4, wide, 4); }
        filled = left + wide;
        if (lane.compute && wide > 24) this.label(work.name + (work.pass && work.pass !== "forward" ? ` ${work.pass}` : ""), left, wide, top + height / 2);
      }
    }
    const picked = this.state.picked;
    if (picked && picked.lane === lane) {
      pen.strokeStyle = this.ink.mark;
      pen.lineWidth = 2.5;
      const left = this.x(picked.start), right = this.x(picked.end);
      pen.strokeRect(left, top + 1, Math.max(right - left, 2), height - 2);
    }
    pen.restore();
  }

  drawRange() {
    const pen = this.pen, range = this.state.range;
    if (!range) return;
    const first = this.lanes[range.first], last = this.lanes[range.last];
    const left = Math.max(this.x(range.from), this.left), right = Math.min(this.x(range.to), this.width);
    if (right <= left) return;
    pen.fillStyle = this.ink.mark;
    pen.globalAlpha = 0.16;
    pen.fillRect(left, first.top, right - left, last.top + last.height - first.top);
    pen.globalAlpha = 1;
    pen.strokeStyle = this.ink.mark;
    pen.lineWidth = 1.5;
    pen.strokeRect(left, first.top, right - left, last.top + last.height - first.top);
  }

  drawRuns(lane) {
    const pen = this.pen;
    let filled = -1;
    for (const run of lane.runs) {
      if (run.end < this.state.from) continue;
      if (run.start > this.state.to) break;
      const left = this.x(run.start), right = this.x(run.end);
      if (right <= filled + 0.25) continue;
      const wide = Math.max(right - left - (right - left > 3 ? 0.7 : 0), 0.5);
      pen.fillStyle = runColour(run) || "#dddddd";
      pen.fillRect(left, lane.top, wide, lane.height);
      filled = left + wide;
      if (wide > 14) this.label(String(run.mb), left, wide, lane.top + lane.height / 2);
    }
  }

  label(text, left, wide, y) {
    const pen = this.pen, from = Math.max(left, this.left), to = Math.min(left + wide, this.width);
    if (to - from < 6 * Math.min(text.length, 4)) return;
    pen.font = "11px system-ui, sans-serif";
    pen.fillStyle = "#000000";
    pen.textAlign = "center";
    const most = Math.floor((to - from) / 6);
    pen.fillText(text.length > most ? text.slice(0, most) : text, (from + to) / 2, y + 0.5);
  }

  firstAfter(lane, time) {  // first span of a lane that may still be seen at `time`
    let low = 0, high = lane.list.length;
    while (low < high) { const mid = (low + high) >> 1; if (lane.spans.end[lane.list[mid]] < time) low = mid + 1; else high = mid; }
    return Math.max(0, low - (lane.compute ? 0 : 24));  // transfers of several streams overlap
  }
  meanWidth(lane, first) {
    const n = this.firstAfter(lane, this.state.to) - first;
    return n > 0 ? (this.width - this.left) / n : Infinity;
  }

  show(from, to) {
    const span = Math.min(Math.max(to - from, 200), this.whole);  // down to 200 ns
    this.state.from = Math.min(Math.max(from, 0), this.whole - span);
    this.state.to = this.state.from + span;
    if (!this.pending) {
      this.pending = true;
      requestAnimationFrame(() => { this.pending = false; this.draw(); });
    }
  }
  zoom(by, around = this.state.picked && this.state.picked.start >= this.state.from && this.state.picked.start <= this.state.to
      ? (this.state.picked.start + this.state.picked.end) / 2 : (this.state.from + this.state.to) / 2) {
    const span = (this.state.to - this.state.from) * by, share = (around - this.state.from) / (this.state.to - this.state.from);
    this.show(around - span * share, around + span * (1 - share));
  }

  pick(lane, k) {
    const i = lane.list[k], s = lane.spans;
    this.state.picked = { lane, k, start: s.start[i], end: s.end[i] };
    this.showDetails();
  }
  showDetails() {
    const p = this.state.picked;
    if (!p) { this.about.textContent = "Point at a box, or select it with the arrow keys."; return; }
    const s = p.lane.spans, i = p.lane.list[p.k], work = p.lane.record.works[s.work[i]];
    const wait = s.start[i] - s.arrival[i], layer = this.layerOf(p.lane, work);
    this.about.textContent = `${p.lane.record.ranks[p.lane.rank].name}, ${p.lane.record.streams[s.stream[i]]}: ${work.name}` +
      `${work.pass ? ` (${work.pass})` : ""}, ${humanize(work.kind)}${work.details ? `, ${work.details}` : ""}, in ${work.part}${layer >= 0 ? `, layer ${layer}` : ""}, micro-batch ${s.mb[i]}; ` +
      `${timeText((s.end[i] - s.start[i]) * 1e-9)} from ${timeText(s.start[i] * 1e-9, 6)}` +
      `${work.transfer && wait > 0 ? `, after waiting ${timeText(wait * 1e-9)} for others` : ""}${work.flop > 0 ? `; ${flopText(work.flop)}` : ""}${work.bytes > 0 ? `; ${bytesText(work.bytes)}` : ""}; ${work.provenance}`;
  }
  /// Number in the model; -1: none.
  layerOf(lane, work) {
    const first = lane.record.ranks[lane.rank].first_layers[work.chunk];
    return work.layer < 0 || first === undefined ? -1 : first + work.layer;
  }

  // ---- A selected range --------------------------------------------------------------------------------------------
  select(range) {
    this.state.range = range;
    this.showSum();
    this.show(this.state.from, this.state.to);
  }
  /// Sums over the range by operator: time within it, and FLOPs and bytes in proportion to it.
  sumOf(range) {
    const rows = new Map(), whole = { computeLanes: 0, compute: 0, flop: 0 };
    for (const lane of this.lanes.slice(range.first, range.last + 1)) {
      whole.computeLanes += lane.compute ? 1 : 0;
      for (const i of lane.list) {
        const begin = lane.spans.start[i], end = lane.spans.end[i], inside = Math.min(end, range.to) - Math.max(begin, range.from);
        if (inside <= 0) continue;
        const work = lane.record.works[lane.spans.work[i]], share = inside / (end - begin);
        const name = [this.records.length > 1 ? `${lane.record.label}:` : "", work.name, work.pass === "forward" ? "" : work.pass].filter(Boolean).join(" ");
        const key = `${name}\n${work.kind}`, row = rows.get(key) ?? rows.set(key, { name, kind: work.kind, count: 0, ns: 0, flop: 0, bytes: 0 }).get(key);
        row.count += 1;
        row.ns += inside;
        row.flop += work.flop * share;
        row.bytes += work.bytes * share;
        if (lane.compute) { whole.compute += inside; whole.flop += work.flop * share; }
      }
    }
    return { ...whole, rows: [...rows.values()] };
  }
  showSum() {
    const range = this.state.range;
    if (!range) { this.sum.replaceChildren(); return; }
    const sum = this.sumOf(range), length = range.to - range.from, available = length * sum.computeLanes;
    const line = `Selected: ${timeText(range.from * 1e-9, 4)} to ${timeText(range.to * 1e-9, 4)}, ${timeText(length * 1e-9)}` + (available > 0
      ? ` on ${sum.computeLanes} row${sum.computeLanes > 1 ? "s" : ""} of computation: ${percent(sum.compute / available)} computing, ${percent(1 - sum.compute / available)} idle; ${flopText(sum.flop)}, ${digits(sum.flop / available / 1e3)} TFLOP/s per GPU`
      : "");
    this.sum.replaceChildren(h("p", {}, line), table([["operation", r => r.name, null, true], ["kind", r => humanize(r.kind), null, true], ["count", r => r.count],
      ["time", r => r.ns, r => timeText(r.ns * 1e-9)], ["FLOPs", r => r.flop, r => r.flop > 0 ? flopText(r.flop) : ""], ["bytes", r => r.bytes, r => r.bytes > 0 ? bytesText(r.bytes) : ""],
      ["rate", r => r.flop / r.ns, r => r.flop > 20 * r.bytes ? `${digits(r.flop / r.ns / 1e3)} TFLOP/s` : r.bytes > 0 ? `${digits(r.bytes / r.ns)} GB/s` : ""]], sum.rows, { sorted: 3, tall: true }));
  }
  laneNear(y) { return Math.max(this.lanes.findLastIndex(lane => lane.top <= y), 0); }
  rangeBetween(x1, y1, x2, y2) {
    const time = x => Math.min(Math.max(this.timeAt(x), 0), this.whole), lanes = [this.laneNear(y1), this.laneNear(y2)];
    return { from: Math.min(time(x1), time(x2)), to: Math.max(time(x1), time(x2)), first: Math.min(...lanes), last: Math.max(...lanes) };
  }
  /// Begins or ends the range at the selected operation, on the lanes between both.
  markRange(ends) {
    const p = this.state.picked, lane = this.lanes.indexOf(p.lane), old = this.state.range;
    const range = { from: ends ? old?.from ?? p.start : p.start, to: ends ? p.end : Math.max(old?.to ?? p.end, p.end), first: Math.min(old?.first ?? lane, lane), last: Math.max(old?.last ?? lane, lane) };
    if (range.from < range.to) this.select(range);
  }
  at(px, py) {
    const lane = this.lanes.find(l => py >= l.top && py <= l.top + l.height);
    if (!lane || px < this.left) return null;
    const time = this.timeAt(px);
    for (let k = this.firstAfter(lane, time); k < lane.list.length; ++k) {
      const i = lane.list[k];
      if (lane.spans.start[i] > time) return null;
      if (lane.spans.end[i] >= time) return { lane, k };
    }
    return null;
  }
  walk(by) {
    const p = this.state.picked;
    this.pick(p.lane, Math.min(Math.max(p.k + by, 0), p.lane.list.length - 1));
    this.bringIntoView();
  }
  laneStep(by) {
    const p = this.state.picked, next = this.lanes[this.lanes.indexOf(p.lane) + by];
    if (!next || !next.list.length) return;
    this.pick(next, Math.min(this.firstAfterExact(next, (p.start + p.end) / 2), next.list.length - 1));
    this.bringIntoView();
  }
  firstAfterExact(lane, time) {
    let low = 0, high = lane.list.length;
    while (low < high) { const mid = (low + high) >> 1; if (lane.spans.end[lane.list[mid]] < time) low = mid + 1; else high = mid; }
    return low;
  }
  bringIntoView() {
    const p = this.state.picked, span = this.state.to - this.state.from;
    if (p.start < this.state.from || p.end > this.state.to) this.show(p.start - span / 3, p.start + span * 2 / 3);
    else this.show(this.state.from, this.state.to);
  }

  listen() {
    const canvas = this.canvas, all = () => this.show(0, this.whole);
    let drag = null;
    canvas.addEventListener("pointerdown", e => { drag = { x: e.offsetX, y: e.offsetY, from: this.state.from, to: this.state.to, moved: false, selects: this.state.selects || e.shiftKey }; canvas.setPointerCapture(e.pointerId); });
    canvas.addEventListener("pointermove", e => {
      if (drag) {
        const by = (drag.x - e.offsetX) / (this.width - this.left) * (drag.to - drag.from);
        drag.moved = drag.moved || Math.abs(drag.x - e.offsetX) > 3;
        if (drag.moved && drag.selects) this.select(this.rangeBetween(drag.x, drag.y, e.offsetX, e.offsetY));
        else if (drag.moved) this.show(drag.from + by, drag.to + by);
        return;
      }
      const hit = this.at(e.offsetX, e.offsetY);
      if (hit && !(this.state.picked && this.state.picked.lane === hit.lane && this.state.picked.k === hit.k)) { this.pick(hit.lane, hit.k); this.show(this.state.from, this.state.to); }
    });
    const release = e => {
      if (drag && !drag.moved) { const hit = this.at(e.offsetX, e.offsetY); if (hit) { this.pick(hit.lane, hit.k); this.draw(); } }
      drag = null;
    };
    canvas.addEventListener("pointerup", release);
    canvas.addEventListener("pointercancel", () => { drag = null; });
    canvas.addEventListener("dblclick", () => {
      const p = this.state.picked;
      if (p) this.show(p.start - (p.end - p.start) * 2, p.end + (p.end - p.start) * 2);
    });
    canvas.addEventListener("wheel", e => {
      if (!e.ctrlKey && !e.shiftKey) return;  // without a modifier key the page scrolls
      e.preventDefault();
      if (e.ctrlKey) this.zoom(e.deltaY > 0 ? 1.25 : 0.8, this.timeAt(e.offsetX));
      else { const by = (e.deltaX || e.deltaY) / 600 * (this.state.to - this.state.from); this.show(this.state.from + by, this.state.to + by); }
    }, { passive: false });
    const keys = { ArrowRight: () => this.walk(1), ArrowLeft: () => this.walk(-1), ArrowUp: () => this.laneStep(-1), ArrowDown: () => this.laneStep(1),
      Home: () => this.walk(-Infinity), End: () => this.walk(Infinity), "+": () => this.zoom(0.6), "=": () => this.zoom(0.6), "-": () => this.zoom(1 / 0.6), "0": all,
      "[": () => this.markRange(false), "]": () => this.markRange(true), Escape: () => this.select(null) };
    canvas.addEventListener("keydown", e => {
      const action = keys[e.key];
      if (!action || e.ctrlKey || e.metaKey || e.altKey) return;
      e.preventDefault();
      if (!this.state.picked && !["+", "=", "-", "0", "Escape"].includes(e.key)) { this.pick(this.lanes[0], 0); this.bringIntoView(); } else action();
    });
    addEventListener("resize", () => this.layout());
    addEventListener("theme", () => this.draw());
  }
}

/// The canvas with its buttons.
function timelineSection(records, note) {
  const canvas = h("canvas", { id: "timeline", tabindex: 0, role: "application",
    "aria-label": "Timeline: arrow keys move between operations, plus and minus zoom, 0 shows the whole step." });
  const about = h("div", { id: "about", "aria-live": "polite", style: "min-height:3em;margin:6px 0" });
  const sum = h("div", { id: "sum", "aria-live": "polite" });
  const view = new StepTimeline(records, canvas, about, sum);
  const button = (id, text, label, action) => h("button", { id, type: "button", "aria-label": label, onclick: action }, text);
  const section = h("section", { id: "section-timeline" }, h("h2", {}, "Timeline"),
    h("div", { class: "bar" }, button("out", "−", "zoom out", () => view.zoom(1 / 0.6)), button("in", "+", "zoom in", () => view.zoom(0.6)),
      button("fit", "Whole step", "whole step", () => view.show(0, view.whole)),
      h("label", {}, h("input", { type: "checkbox", id: "every", onchange: e => { view.state.everyStream = e.target.checked; view.state.picked = view.state.range = null; view.makeLanes(); view.layout(); view.showDetails(); view.showSum(); } }), " every stream"),
      h("label", {}, h("input", { type: "checkbox", id: "selects", onchange: e => { view.state.selects = e.target.checked; } }), " drag selects a range")),
    canvas, about, sum, timelineLegend(records),
    h("p", { class: "soft" }, note, " Drag to move, ", h("kbd", {}, "ctrl"), " and the wheel to zoom, double click for one operation; ", h("kbd", {}, "shift"), " and drag, or ", h("kbd", {}, "["), " and ", h("kbd", {}, "]"), " at two operations, for the sums of a range. ",
      h("kbd", {}, "←"), " ", h("kbd", {}, "→"), " ", h("kbd", {}, "↑"), " ", h("kbd", {}, "↓"), " walk · ", h("kbd", {}, "+"), " ", h("kbd", {}, "−"), " ", h("kbd", {}, "0"), " zoom"));
  section.view = view;
  view.showDetails();
  return section;
}

function timelineLegend(records) {
  const works = records.flatMap(r => r.works), kinds = new Set(works.map(w => w.kind)), phases = new Set(works.filter(w => !w.transfer).map(w => w.phase)), passes = new Set(works.map(w => w.pass));
  const entry = (colour, text) => h("span", {}, h("span", { class: "key", style: `background:${colour}` }), text), heading = text => h("span", { class: "soft" }, text);
  const split = works.some(w => w.part.startsWith("input gradient"));
  return h("div", { class: "legend" }, heading("zoomed out:"), [...phases].map(p => entry(PHASE_COLOURS[p], humanize(p))), split ? entry(INPUT_COLOUR, "input gradient") : null,
    heading("zoomed in:"), [...kinds].map(k => entry(colourOf(k), humanize(k))),
    heading("lower edge:"), [["dgrad", "input gradient (dgrad)"], ["wgrad", "weight gradient (wgrad)"]].filter(([pass]) => passes.has(pass)).map(([pass, text]) => entry(PASS_COLOURS[pass], text)));
}
