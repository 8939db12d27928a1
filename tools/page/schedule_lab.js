// Controls of the schedule page: sizes, times and a memory limit; the pictures follow. Needs schedule_model.js.
const lab = data.lab;
const labState = lab && { first: data.views[0].name, second: data.views[1]?.name ?? "", stages: data.views[0].ranks, microbatches: data.views[0].microbatches,
  chunks: data.views[0].chunks, f: lab.times.f[0], i: lab.times.i[0], w: lab.times.w[0], latency: lab.times.latency, rank: -1, own: ownTimes(lab.times), limit: 0 };
const labUndo = [];
let lastChange = { keys: "", at: 0 };
const scheduleOf = name => lab.schedules.find(s => s.name === name);
/// A schedule with a fixed number of chunks keeps it.
const chunksOf = (name, wanted) => { const s = scheduleOf(name); return s.chunks.length === 1 ? s.chunks[0] : s.chunks.includes(wanted) ? wanted : s.own; };
/// The order, or the sentence why there is none.
function orderOf(name, sizes) {
  return scheduleOf(name).orders[[sizes.stages, sizes.microbatches, chunksOf(name, sizes.chunks)].join(",")] ?? "too large for the page; use the command line";
}
/// {rank: {f, i, w}}: the times of ranks that differ from those of rank 0.
function ownTimes(times) {
  const own = {};
  for (const t of ["f", "i", "w"]) times[t].forEach((time, rank) => { if (time !== times[t][0]) (own[rank] ??= {})[t] = time; });
  return own;
}
function timesOf(s) {
  const list = t => Array.from({ length: s.stages }, (_, rank) => s.own[rank]?.[t] ?? s[t]);
  return { f: list("f"), i: list("i"), w: list("w"), latency: s.latency };
}
/// A slider of times concerns all ranks, or the one that is selected.
const timeControl = (id, name) => ({ id, name, values: () => TIMES, now: () => timesOf(labState)[id][Math.max(0, labState.rank)], text: now => {
  const list = timesOf(labState)[id], least = Math.min(...list), most = Math.max(...list);
  return labState.rank >= 0 || least === most ? fmt(now) : `${fmt(least)} to ${fmt(most)}`;
} });
/// A view as the program makes it, from an order and times.
function labView(name, s) {
  const order = orderOf(name, s);
  if (typeof order === "string") return order;
  const times = timesOf(s);
  if (order.r > 1 && ["f", "i", "w"].some(t => new Set(times[t]).size > 1)) return `${name} has each stage on two ranks; times per rank need one copy of the model`;
  const rows = runOrder(order, times), numbers = numbersOf(rows), parts = order.s[0].length / order.r;
  return prepare({ name, ranks: s.stages, microbatches: s.microbatches, chunks: order.s[0].length, replicas: order.r, weight_versions: rows.map(() => 1), rules: "",
    times_from: "", scale: 1, makespan: numbers.length, work: numbers.work, bubble: numbers.bubble, own_span_bubble: numbers.own, steady: false,
    kept_at_start: rows.map(() => 0), unit: 1 / parts, length: numbers.length, rows });
}

const LAB_CONTROLS = () => [
  { id: "first", name: "above", options: () => lab.schedules.map(s => s.name), why: v => orderOf(v, labState) },
  { id: "second", name: "below", options: () => ["", ...lab.schedules.map(s => s.name)], text: v => v || "nothing", why: v => v && orderOf(v, labState) },
  { id: "stages", name: "ranks P", values: () => lab.stages },
  { id: "microbatches", name: "micro-batches M", values: () => lab.microbatches },
  { id: "chunks", name: "chunks per rank V", values: () => [...new Set([labState.first, labState.second].filter(Boolean).flatMap(n => scheduleOf(n).chunks.length > 1 ? scheduleOf(n).chunks : []))].sort((a, b) => a - b) },
  { id: "rank", name: "times of", options: () => [-1, ...Array(labState.stages).keys()], text: v => v < 0 ? "all ranks" : `rank ${v}`, number: true },
  timeControl("f", "forward F"), timeControl("i", "input gradient I"), timeControl("w", "weight gradient W"),
  { id: "latency", name: "latency of a message", values: () => TIMES.map(t => t / 4) },
  { id: "limit", name: "memory limit", values: () => [0, ...lab.microbatches], text: v => v ? `${v} micro-batches` : "none" }];
const TIMES = Array.from({ length: 41 }, (_, i) => i / 10);
const nearestIndex = (list, value) => list.reduce((best, v, i) => Math.abs(v - value) < Math.abs(list[best] - value) ? i : best, 0);

function element(tag, members, ...children) {
  const e = Object.assign(document.createElement(tag), members);
  e.append(...children);
  return e;
}
let labControls = [];
function makeLab() {
  if (!lab) return;
  $("choice").hidden = true;
  $("lab").hidden = false;
  labControls = LAB_CONTROLS().map(c => {
    const output = element("output", {}), input = c.options ? element("select", { id: `lab-${c.id}` }) : element("input", { type: "range", min: 0, id: `lab-${c.id}` });
    const box = element("label", {}, element("span", { textContent: c.name }), output, input);
    input.addEventListener(c.options ? "change" : "input", () => setLab({ [c.id]: c.options ? (c.number ? Number(input.value) : input.value) : c.values()[input.value] }));
    $("lab-controls").append(box);
    return { ...c, box, input, output };
  });
  $("undo").onclick = () => { if (labUndo.length) { Object.assign(labState, labUndo.pop()); lastChange.keys = ""; drawLab(); } };
  $("save").onclick = () => {
    const link = element("a", { href: URL.createObjectURL(new Blob([svgOf(shown(), Number($("svg-width").value))], { type: "image/svg+xml" })), download: `${shown().map(v => v.name).join("-")}.svg` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  try { setLab(JSON.parse(decodeURIComponent(location.hash.slice(1))), false); } catch { fillLab(); }
}
/// Values of a link may be anything: only those that a control has are taken.
function allowed(values) {
  const good = {};
  for (const c of LAB_CONTROLS()) {
    const v = values?.[c.id];
    if (v === undefined) continue;
    if (c.id === "rank" ? Number.isInteger(v) && v >= -1 && v < 64 : c.options ? c.options().includes(v) : isTime(v)) good[c.id] = v;
  }
  if (values?.own && typeof values.own === "object" && Object.values(values.own).every(times => times && typeof times === "object" && Object.values(times).every(isTime))) good.own = values.own;
  return good;
}
const isTime = v => typeof v === "number" && v >= 0 && v <= 64;
/// Moves the times that a slider gives to the selected rank; those of all ranks replace what ranks have of their own.
function toSelectedRank(given) {
  if (given.own) return given;
  for (const t of ["f", "i", "w"].filter(each => given[each] !== undefined)) {
    given.own = structuredClone(given.own ?? labState.own);
    if (labState.rank < 0) { for (const times of Object.values(given.own)) delete times[t]; continue; }
    (given.own[labState.rank] ??= {})[t] = given[t];
    delete given[t];
  }
  return given;
}
function setLab(values, undo = true) {
  const before = { ...labState };
  Object.assign(labState, toSelectedRank(allowed(values)));
  if (labState.rank >= labState.stages) labState.rank = -1;
  // A schedule whose point are chunks brings them.
  const picked = ["first", "second"].find(key => values?.[key] && values.chunks === undefined && labState[key] !== before[key]);
  if (picked && labState.chunks < scheduleOf(labState[picked]).own) labState.chunks = scheduleOf(labState[picked]).own;
  const changed = Object.keys(labState).filter(key => labState[key] !== before[key]).join(), now = performance.now();
  // A drag is one change.
  if (undo && changed && !(changed === lastChange.keys && now - lastChange.at < 1000)) labUndo.push(before);
  if (changed) lastChange = { keys: changed, at: now };
  drawLab();
}
function fillLab() {
  for (const c of labControls) {
    const now = c.now ? c.now() : labState[c.id], text = c.text ?? String;
    if (c.options) {
      c.input.replaceChildren(...c.options().map(v => {
        const why = c.why?.(v);
        return element("option", { value: v, textContent: text(v), title: typeof why === "string" ? why : "" });
      }));
      c.input.value = now;
      continue;
    }
    const list = c.values();
    c.box.hidden = list.length < 2;
    c.input.max = list.length - 1;
    c.input.value = nearestIndex(list, now);
    c.output.textContent = text(now);
  }
  $("undo").disabled = !labUndo.length;
}
/// Numbers of micro-batches that both schedules can do with these ranks and chunks.
function possible() {
  const names = [labState.first, labState.second].filter(Boolean);
  return lab.microbatches.filter(m => names.every(n => typeof orderOf(n, { ...labState, microbatches: m }) !== "string"));
}
function drawLab() {
  fillLab();
  history.replaceState(null, "", `#${encodeURIComponent(JSON.stringify(labState))}`);
  const views = [labState.first, labState.second].filter(Boolean).map(name => labView(name, labState)), wrong = views.find(v => typeof v === "string");
  $("refused").hidden = !wrong;
  $("repeat").hidden = Boolean(wrong);
  canvas.style.opacity = wrong ? 0.35 : 1;
  if (wrong) {
    const list = possible(), ofTimes = list.includes(labState.microbatches);
    $("refused").textContent = `${wrong}. ` + (ofTimes ? "Give all ranks the same times." : list.length ? `With ${labState.stages} ranks M may be ${list.join(", ")}.` : "No number of micro-batches works with these ranks and chunks.");
    return;
  }
  data.views = views;
  state.shown = views.map((_, i) => i);
  $("command").textContent = labCommand();
  $("searched").textContent = searchedNote();
  fillPage();
  start();
}
function labCommand() {
  const s = labState, names = [s.first, s.second].filter(Boolean), cut = names.filter(name => chunksOf(name, s.chunks) !== scheduleOf(name).own);
  // --virtual is for the first schedule, and for a compared one that can have so many chunks.
  if (cut.length && !cut.includes(s.first)) names.reverse();
  const words = ["tracecast schedule", "--schedule", names[0], "--stages", s.stages, "--microbatches", s.microbatches], list = t => { const times = timesOf(s)[t].map(fmt); return (new Set(times).size > 1 ? times : times.slice(0, 1)).join(","); };
  if (cut.length) words.push("--virtual", chunksOf(cut[0], s.chunks));
  for (const [option, t, usual] of [["--tf", "f", "1"], ["--tb", "i", "1"], ["--tw", "w", "1"]]) if (list(t) !== usual) words.push(option, list(t));
  if (s.latency) words.push("--tc", fmt(s.latency));
  if (names.length > 1) words.push("--compare", names[1]);
  return words.join(" ");
}
/// The page has orders that were searched for one set of times only.
function searchedNote() {
  const s = labState, times = timesOf(s), names = [s.first, s.second].filter(name => name && scheduleOf(name).uses_times);
  const usual = !s.latency && [...times.f, ...times.i, ...times.w].every(t => t === 1);
  return names.length && !usual ? `The order of ${[...new Set(names)].join(" and ")} above was searched for F, I and W of 1 without latency. The command searches again for these times, so that its numbers may differ.` : "";
}

// ---- a picture for a slide ---------------------------------------------------------------------------------------
/// A standalone SVG of the given width.
function svgOf(views, width) {
  const left = 60, right = 12, row = 22, strip = 9, gap = 5, head = 40, longest = Math.max(...views.map(v => v.length)), at = t => left + t / longest * (width - left - right);
  const n = x => Number(x.toFixed(2)), rect = (x, y, w, height, fill, more = "") => `<rect x="${n(x)}" y="${n(y)}" width="${n(w)}" height="${n(height)}" fill="${fill}"${more}/>`;
  const label = (x, y, size, text, anchor = "middle", more = "") => `<text x="${n(x)}" y="${n(y)}" font-size="${n(size)}" text-anchor="${anchor}"${more}>${text}</text>`;
  const parts = [];
  let y = 0;
  for (const view of views) {
    parts.push(label(6, y + 16, 14, `${view.name}, ${view.ranks} ranks, ${view.microbatches} micro-batches: ${fmt(view.length)} long, bubble ${(100 * view.bubble).toFixed(1)} %`, "start", ' font-weight="600"'));
    y += head;
    let step = 10 ** Math.floor(Math.log10(longest / 8));
    for (const k of [2, 2.5, 2]) if (longest / step > 12) step *= k;
    for (let t = 0; t <= longest * (1 + 1e-9); t += step) parts.push(rect(at(t), y - 4, 0.6, view.ranks * (row + strip + gap), "#cccccc"), label(at(t), y - 7, 10, fmt(t)));
    view.rows.forEach((list, rank) => {
      parts.push(label(6, y + 15, 11, `rank ${rank}`, "start"));
      for (const b of list) {
        const wide = Math.max(at(b.end) - at(b.start) - 0.5, 0.3), name = `<title>${KIND[b.kind]}${b.m} stage ${b.stage}, ${fmt(b.start)} to ${fmt(b.end)}</title>`;
        const fill = shade(colours[b.kind], b.chunk, view.chunks), text = b.kind === 4 ? "" : KIND[b.kind] + b.m, size = Math.min(11, wide / (0.62 * Math.max(text.length, 1)));
        parts.push(`<g>${name}${rect(at(b.start), y, wide, row, fill)}`);
        if (b.kind === 4) parts.push(rect(at(b.start), y + row / 2, wide, row / 2, shade(colours[1], b.chunk2, view.chunks)));
        if (text && size >= 5) parts.push(label(at(b.start) + wide / 2, y + 15, size, text));
        if (b.kind === 4 && wide > 12) parts.push(label(at(b.start) + wide / 2, y + 9, 9, b.m), label(at(b.start) + wide / 2, y + 20, 9, b.m2));
        parts.push("</g>");
      }
      let last = 0, before = 0, path = `M${left} ${n(y + row + strip)}`;
      for (const [time, kept] of [...view.kept[rank], [view.length, 0]]) {
        path += `H${n(at(time))}V${n(y + row + strip - (strip - 1) * kept / view.peak)}`;
        last = time; before = kept;
      }
      parts.push(`<path d="${path}V${n(y + row + strip)}Z" fill="#555555" fill-opacity="0.55"/>`);
      y += row + strip + gap;
    });
    y += 8;
  }
  const kinds = new Set(views.flatMap(v => v.rows.flat().flatMap(b => b.kind === 4 ? [0, 1] : [b.kind])));
  let x = 6;
  for (const kind of [0, 1, 2, 3].filter(k => kinds.has(k))) { parts.push(rect(x, y, 12, 12, colours[kind]), label(x + 17, y + 10, 11, `${KIND[kind]} ${WORDS[kind]}`, "start")); x += 135; }
  parts.push(rect(x, y, 12, 12, "#999999"), label(x + 17, y + 10, 11, "activations kept; time in the units given", "start"));
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${n(y + 22)}" viewBox="0 0 ${width} ${n(y + 22)}" font-family="system-ui, sans-serif">\n${rect(0, 0, width, y + 22, "#ffffff")}\n${parts.join("\n")}\n</svg>\n`;
}
