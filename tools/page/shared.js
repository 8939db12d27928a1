// Shared by all pages: elements, numbers, tables, the switch between dark and light.
const $ = id => document.getElementById(id);

function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") element.style.cssText = value;  // not an attribute: a page may forbid inline styles
    else if (value !== false && value != null) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter(child => child != null));
  return element;
}

const digits = (x, n = 3) => {
  if (!Number.isFinite(x)) return "–";
  if (x === 0) return "0";
  if (Number.isInteger(x)) return x.toLocaleString("en-US", { maximumSignificantDigits: Math.max(n, String(Math.abs(x)).length) });
  if (Math.abs(x) >= 10 ** Math.min(n, 4)) return Math.round(x).toLocaleString("en-US");
  const text = x.toPrecision(n);  // with the zeros at its end: all numbers of a column have as many digits
  return text.includes("e") ? Number(text).toString() : text;
};
/// A round number, such as that of a tick, without the zeros at its end.
const trimmed = text => text.replace(/\.(\d*?)0+(?!\d)/, (_, kept) => kept && `.${kept}`);
function timeText(s, n = 3) {
  const size = Math.abs(s);
  if (size === 0) return "0 s";
  if (size < 1e-6) return `${digits(s * 1e9, n)} ns`;
  if (size < 1e-3) return `${digits(s * 1e6, n)} µs`;
  if (size < 1) return `${digits(s * 1e3, n)} ms`;
  if (size < 300) return `${digits(s, n)} s`;
  if (size < 5400) return `${digits(s / 60, n)} min`;
  return size < 2 * 86400 ? `${digits(s / 3600, n)} h` : `${digits(s / 86400, n)} days`;
}
/// Round numbers of [low, high], about `most` of them.
function ticks(low, high, most) {
  const rough = (high - low || 1) / most, power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 2.5, 5].find(k => power * k >= rough) ?? 10), list = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high * (1 + 1e-9); ++i) list.push(i * step + 0);  // no -0
  return list;
}
const percent = (share, n = 1) => `${(100 * share).toFixed(n)} %`;
/// Of a forecast: "8.7 % too fast".
const errorText = error => `${percent(Math.abs(error))} too ${error < 0 ? "fast" : "slow"}`;
/// "15.6 T tokens", "1 token".
function tokensText(tokens) {
  const [size, unit] = [[1e12, " T"], [1e9, " B"], [1e6, " M"], [1e3, " k"]].find(([least]) => tokens >= least) ?? [1, ""];
  return `${trimmed(digits(tokens / size))}${unit} token${tokens === 1 ? "" : "s"}`;
}
const gib = x => `${x.toFixed(1)} GiB`;
// Sizes are binary, rates decimal, as the program prints them.
const scaled = (value, base, units) => { const power = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log(value || 1) / Math.log(base) + 1e-9))); return `${digits(value / base ** power)} ${units[power]}`; };
const bytesText = bytes => scaled(bytes, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
const rateText = rate => scaled(rate, 1000, ["B/s", "kB/s", "MB/s", "GB/s", "TB/s"]);
const humanize = name => name.replaceAll("_", " ");

const card = (name, value, note = "", kind = "") => h("div", { class: "card" }, h("span", {}, name), h("b", { class: kind }, value), h("span", {}, note));

const moneyText = usd => usd >= 1e6 ? `${digits(usd / 1e6)} million USD` : `${digits(usd)} USD`;

/// Of a step that is a mean: over the steps of a period (parameter_averaging), over batches of packed documents.
function periodCards(r) {
  const a = r.averaging, d = r.documents;
  return [a && card("averaging", `${timeText(a.averaging_step_s)} with it, ${timeText(a.local_step_s)} without`, `${a.steps} of every ${digits(a.period, 9)} steps, over ${digits(a.replicas)} replicas; ${timeText(a.waited_s)} of ${timeText(a.transfer_s)} of transfers are waited for; the loss is not forecast`),
    d && card("documents", `${digits(d.useful_tokens_per_s)} useful tokens/s`, `documents of ${digits(d.mean_length)} tokens in the mean; ${percent(d.useful_share)} of the tokens are not padding${d.dropped_share > 0 ? `, ${percent(d.dropped_share)} are dropped` : ""}${d.p95_s > d.p5_s ? `; ${d.steps} steps: 90 % take ${timeText(d.p5_s)} to ${timeText(d.p95_s)}` : ""}`)].filter(Boolean);
}
/// Which step is drawn, where the forecast is the mean of several.
const drawnStep = r => r.averaging ? `The step that is drawn averages parameters: ${timeText(r.averaging.averaging_step_s)}, where the mean step takes ${timeText(r.step_time_s)}. `
  : r.documents && r.documents.p95_s > r.documents.p5_s ? "The step that is drawn is the one nearest to the mean. " : "";

/// columns: [title, value of a row, text of a row (default: the value), is it text?]; a click on a title sorts.
function table(columns, rows, { sorted = -1, tall = false, pick = null } = {}) {
  const body = h("tbody"), head = h("tr"), box = h("div", { class: `wide${tall ? " tall" : ""}`, tabindex: tall ? 0 : null },
    h("table", {}, h("thead", {}, head), body));
  let order = sorted, down = true;
  const fill = () => {
    const list = [...rows];
    if (order >= 0) {
      const value = columns[order][1];
      list.sort((a, b) => { const x = value(a), y = value(b); return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1); });
    }
    body.replaceChildren(...list.map(row => h("tr", pick ? { onclick: () => pick(row) } : {},
      columns.map(([, value, text, isText]) => h("td", { class: isText ? "text" : null }, String((text || value)(row)))))));
  };
  columns.forEach(([title, , , isText], i) => head.append(h("th", { class: isText ? "text" : null, scope: "col" },
    h("button", { type: "button", title: "sort", onclick: () => { down = order === i ? !down : true; order = i; fill(); } }, title))));
  fill();
  return box;
}

/// parts: [{ name, value, colour }]; one stacked bar with a legend.
function stackedBar(parts, total, text) {
  const shown = parts.filter(p => p.value > 0);
  return h("div", {},
    h("div", { class: "stack", role: "img", "aria-label": shown.map(p => `${p.name} ${text(p.value)}`).join(", ") },
      shown.map(p => h("i", { style: `width:${100 * p.value / total}%;background:${p.colour}`, title: `${p.name}: ${text(p.value)}` }))),
    h("div", { class: "legend" }, shown.map(p => h("span", {}, h("span", { class: "key", style: `background:${p.colour}` }), `${p.name} ${text(p.value)}`))));
}

const KIND_COLOURS = { gemm: "#77aadd", grouped_gemm: "#5f97cf", attention: "#99ddff", scores: "#88ccee", softmax: "#aaddcc",
  norm: "#eedd88", activation: "#ffaabb", rope: "#bbcc33", residual: "#aaaa00", embedding: "#ddcc77", cross_entropy: "#e8b8a0",
  optimizer: "#44bb99", cast: "#cccccc", permute: "#ccbb99", copy: "#bbbbbb",
  tensor_parallel: "#cc99cc", context_parallel: "#7f7fd0", expert_parallel: "#8a4f9e", pipeline: "#88bbaa", gradients: "#c04a5a",
  parameters: "#e0a050", control: "#bbaaaa", contention: "#d98880", bubble: "#9a9aa6", host: "#707080" };
const SPENT_COLOURS = { productive: "#44aa99", degraded: "#ddcc77", checkpoint: "#88ccee", "lost work": "#cc6677", detection: "#332288", diagnosis: "#aa4499", "waiting for spares": "#999933", restart: "#882255", load: "#117733", planned: "#dddddd" };
const PHASE_COLOURS = { forward: "#77aadd", backward: "#ee8866", weight_gradient: "#c4c4c4", optimizer: "#44bb99" };
const INPUT_COLOUR = "#eedd88";  // of input gradients that are a pass of their own, as in pictures of schedules
const colourOf = kind => KIND_COLOURS[kind] || "#dddddd";
const cssColour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function toggleTheme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  dispatchEvent(new Event("theme"));
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => dispatchEvent(new Event("theme")));
