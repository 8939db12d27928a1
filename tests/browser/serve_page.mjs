// Drives the what-if page of `tracecast serve` in Chromium: drag, compare, restore from a link, errors, keyboard, export.
//   node serve_page.mjs TRACECAST [FOLDER FOR SCREENSHOTS]
import { spawn, execFileSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import assert from "node:assert/strict";
import { inBrowser, looksOf, newPage, reachedByTab, skip, tracecast } from "./browser.mjs";

if (!existsSync(join(dirname(tracecast), "tracecast-server"))) skip("this build has no tracecast-server");

await inBrowser(async (browser, folder) => {
  const server = spawn(tracecast, ["serve", "--port", "0"], { stdio: ["ignore", "pipe", "inherit"] });
  process.on("exit", () => server.kill());
  try {
    const address = await new Promise(done => server.stdout.on("data", d => { const m = /http:\S+/.exec(d); if (m) done(m[0]); }));
    await drive(browser, folder, address);
  } finally {
    server.kill();
  }
});
console.log("the what-if page works");

async function drive(browser, folder, address) {
  const open = async (options = {}, hash = "") => {
    const page = await newPage(browser, { offline: false, allowed: address, ...options });
    await page.goto(address + hash);
    await settled(page);
    return page;
  };
  const settled = page => page.waitForFunction(() => window.tracecast?.sides.a && Object.values(tracecast.sides).every(s => !s.busy && (s.rested || s.failed)), null, { timeout: 30000 });
  const text = (page, selector) => page.textContent(selector);
  const card = (page, side, name) => page.locator(`#side-${side} .card`, { hasText: name }).locator("b").textContent();

  const page = await open();
  assert.equal(await page.inputValue("#a-scenario"), "llama3-405b-16k");
  assert.doesNotMatch(await text(page, "#side-a"), /\[object|null|undefined/);
  const before = await card(page, "a", "step time");
  assert.match(before, /^6\.\d+ s$/);
  assert.match(await card(page, "a", "cost"), /USD/);
  assert.match(await card(page, "a", "goodput"), /%/);

  // Drag the slider of the batch: answers come while it moves, the last one is of where it stands.
  const slider = page.locator("#a-batch"), box = await slider.boundingBox();
  await page.mouse.move(box.x + box.width * 0.55, box.y + box.height / 2);
  await page.mouse.down();
  for (let i = 0; i < 12; ++i) { await page.mouse.move(box.x + box.width * (0.55 + 0.02 * i), box.y + box.height / 2); await page.waitForTimeout(30); }
  await page.mouse.up();
  await settled(page);
  assert.notEqual(await card(page, "a", "step time"), before);
  const moved = await page.evaluate(() => [tracecast.state.a.set["training.global_batch_size"], tracecast.sides.a.answer.settings.global_batch_size, tracecast.sides.a.latencies.length]);
  assert.equal(moved[0], moved[1]);
  assert(moved[2] > 3, "answers while dragging");
  const times = await page.evaluate(() => tracecast.sides.a.latencies.map(l => l.asked).sort((x, y) => x - y));
  console.log(`${times.length} answers while dragging, slowest ${times[times.length - 1].toFixed(0)} ms`);

  // Labels of controls are linked to the glossary.
  assert.equal(await text(page, "#term-zero"), "ZeRO");
  assert((await page.$$("#side-a label a.term")).length > 5);

  // By keyboard.
  const gpus = () => page.evaluate(() => tracecast.sides.a.answer.settings.gpus);
  const were = await gpus();
  await page.focus("#a-gpus");
  await page.keyboard.press("ArrowLeft");
  await settled(page);
  assert(await gpus() < were, "the arrow key takes GPUs away");
  await page.focus("#a-rails");
  await page.keyboard.press("ArrowRight");
  await settled(page);
  assert.deepEqual(await page.evaluate(() => tracecast.state.a.set["perturb.lost_rails"]), [0]);
  const reached = await reachedByTab(page, 70);
  for (const id of ["two", "link", "theme", "undo", "a-scenario", "a-file", "a-model", "a-profile", "a-dtype", "a-seq", "a-cp", "a-pp", "a-vpp", "a-zero", "a-micro", "a-recompute", "a-timeline", "a-nicrate", "a-nics", "a-oversubscription", "a-slow", "a-link", "a-topology", "a-gpus", "a-batch", "a-tp", "a-schedule", "a-rails", "a-uplinks", "a-failures", "a-mtbf", "a-checkpoint", "a-spares", "a-reset"]) {
    assert(reached.has(id), `Tab does not reach ${id}`);
  }

  await keyboard(page, settled);

  // The command line gives the same answer; so does the scenario file.
  const step = await page.evaluate(() => tracecast.sides.a.answer.result.step_time_s);
  const command = (await page.textContent("#side-a .command")).split("\n")[0];
  assert.match(command, /^tracecast predict llama3-405b-16k --set /);
  const run = words => JSON.parse(execFileSync("bash", ["-c", `${tracecast} ${words} --json || test $? -eq 1`], { encoding: "utf8" })).step_time_s;
  assert.equal(run(command.replace(/^tracecast /, "")), step);
  const [saved] = await Promise.all([page.waitForEvent("download"), page.click("#side-a .save")]);
  const file = join(folder, "saved.json");
  await saved.saveAs(file);
  assert.match(readFileSync(file, "utf8"), /"lost_rails"/);
  assert.equal(run(`predict ${file}`), step);

  // The link restores the state, elsewhere.
  const hash = await page.evaluate(() => location.hash);
  const again = await open({}, hash);
  assert.equal(await again.evaluate(() => tracecast.sides.a.answer.result.step_time_s), step);
  assert.equal(await again.inputValue("#a-batch"), await page.inputValue("#a-batch"));
  const broken = await open({}, "#%7Bnonsense");
  assert.equal(await broken.inputValue("#a-scenario"), "llama3-405b-16k");

  // What is impossible is disabled, with the reason in the page's words; degrees that follow are said.
  await page.click("#a-reset");
  await settled(page);
  const reason = await page.locator("#a-pp option[disabled]").first().getAttribute("title");
  assert.match(reason, /virtual stages are more than/);
  assert.doesNotMatch(reason, /parallel\.|\.json/);
  await page.selectOption("#a-tp", "4");
  await settled(page);
  assert.match(await text(page, "#side-a .follows"), /^data parallel is 256, which follows/);
  await page.selectOption("#a-schedule", "zb-v");  // its chunks follow
  await settled(page);
  assert.equal(await page.inputValue("#a-vpp"), "2");
  assert.equal(await page.isVisible("#side-a .errors"), false);

  // Undo takes back one change at a time, by button and by keyboard.
  await page.waitForTimeout(600);
  await page.selectOption("#a-dtype", "fp8");
  await settled(page);
  await page.click("#undo");
  await settled(page);
  assert.equal(await page.inputValue("#a-dtype"), "bf16");
  await page.keyboard.press("Control+z");
  await settled(page);
  assert.equal(await page.inputValue("#a-schedule"), "interleaved-1f1b");
  await page.click("#a-reset");
  await settled(page);
  assert.equal(await card(page, "a", "step time"), before);

  // An error is marked at its control.
  const answered = () => page.waitForFunction(() => !tracecast.sides.a.busy && !tracecast.sides.a.again);
  await page.selectOption("#a-model", "llama-2-7b");
  await page.waitForFunction(() => !document.querySelector("#side-a .errors").hidden);
  await answered();
  assert.match(await text(page, "#side-a .errors"), /^pipeline parallel = 16: /);
  assert.deepEqual(await page.$$eval("#side-a [aria-invalid=true]", all => all.map(e => e.id)), ["a-pp"]);
  await page.click("#a-reset");
  await settled(page);
  assert.equal(await page.locator("#side-a [aria-invalid=true]").count(), 0);

  // Every other control changes the forecast and its command line.
  const stepNow = () => page.evaluate(() => tracecast.sides.a.answer.result.step_time_s);
  for (const [id, value, key] of [["nicrate", "50 Gb/s", "topology.node.nic_rate=50 Gb/s"], ["nics", "4", "topology.node.nics=4"],
    ["oversubscription", "4", "oversubscription=4"], ["link", "0", 'perturb.slow_nic={"0":{"0":0}}'], ["topology", "dgx-h200", "cluster.topology=dgx-h200"], ["dtype", "fp8", "training.dtype=fp8"], ["zero", "3", "parallel.zero_stage=3"], ["recompute", "full", "training.recompute=full"]]) {
    const step = await stepNow();
    await page.selectOption(`#a-${id}`, value);
    await settled(page);
    assert.equal(await page.isVisible("#side-a .errors"), false, `${id}: ${await text(page, "#side-a .errors")}`);
    assert.notEqual(await stepNow(), step, id);
    assert(await page.textContent("#side-a .command").then(t => t.includes(key)), `${id}: ${await text(page, "#side-a .command")}`);
    await page.click("#a-reset");
    await settled(page);
  }
  for (const [id, key] of [["slow", "perturb.slow_rank"], ["seq", "training.seq_length"], ["uplinks", "perturb.lost_uplinks"]]) {
    await page.focus(`#a-${id}`);
    await page.keyboard.press("ArrowRight");
    await settled(page);
    assert(await page.textContent("#side-a .command").then(t => t.includes(key)), id);
    await page.click("#a-reset");
    await settled(page);
  }

  // The timeline comes when the controls rest; a machine that is smaller takes fewer GPUs.
  await page.waitForFunction(() => tracecast.sides.a.timeline);
  const canvas = page.locator("#side-a canvas");
  const area = await canvas.boundingBox();
  await canvas.hover({ position: { x: area.width / 2, y: 5 } });
  assert.match(await text(page, "#side-a .hint"), /^pp 0: (forward|backward|idle)/);
  await page.selectOption("#a-topology", "abci-3");
  await settled(page);
  assert.equal(await page.isVisible("#side-a .errors"), false, await text(page, "#side-a .errors"));
  assert(await page.evaluate(() => tracecast.sides.a.answer.settings.gpus < 16384));
  await page.click("#a-reset");
  await settled(page);

  // Files: the scenario as it ran, a model of Hugging Face, and one that is neither.
  await page.setInputFiles("#a-file", file);
  await page.waitForFunction(() => tracecast.state.a.file);
  await settled(page);
  assert.equal(await page.evaluate(() => tracecast.sides.a.answer.result.step_time_s), step);
  assert.match(await text(page, "#side-a .command"), /^tracecast predict saved\.json/);
  const config = { architectures: ["LlamaForCausalLM"], model_type: "llama", _name_or_path: "some/where", hidden_size: 4096, num_hidden_layers: 128, num_attention_heads: 64, num_key_value_heads: 8,
    intermediate_size: 11008, vocab_size: 128256, hidden_act: "silu", max_position_embeddings: 8192, tie_word_embeddings: false };
  writeFileSync(join(folder, "config.json"), JSON.stringify(config));
  await page.click("#a-reset");
  await settled(page);
  await page.selectOption("#a-scenario", "llama3-405b-1024");
  await settled(page);
  const large = await stepNow();
  await page.selectOption("#a-model", "llama-3.1-70b");
  await settled(page);
  assert(await stepNow() < large / 2);
  await page.setInputFiles("#a-file", join(folder, "config.json"));
  await page.waitForFunction(() => tracecast.state.a.set.model?.num_hidden_layers);
  await settled(page);
  assert.equal(await page.isVisible("#side-a .errors"), false, await text(page, "#side-a .errors"));
  assert.equal(await page.inputValue("#a-model"), "config");
  writeFileSync(join(folder, "notes.txt"), "no JSON");
  await page.setInputFiles("#a-file", join(folder, "notes.txt"));
  await page.waitForFunction(() => /^notes\.txt is not a JSON object/.test(document.querySelector("#side-a .errors").textContent));
  await page.selectOption("#a-scenario", "deepseek-v3-2048");
  await settled(page);
  assert(await page.isVisible("#a-ep") && await page.isVisible("#a-imbalance"));
  await page.selectOption("#a-scenario", "llama3-405b-16k");
  await settled(page);

  // A mean over a period: what averages is said, and the drawn step is as long as it is. Of 64 stages 16 are drawn.
  await page.selectOption("#a-scenario", "diloco-10b");
  await settled(page);
  assert.match(await card(page, "a", "averaging"), /^183 s with it/);
  assert.match(await text(page, "#side-a"), /The step that is drawn averages parameters/);
  assert(await page.evaluate(() => tracecast.sides.a.timeline.step_time_s > 5 * tracecast.sides.a.answer.result.step_time_s));
  assert.match(await text(page, "#side-a"), /in a month of 30 days/);
  await page.selectOption("#a-scenario", "megatron-sc21-1t");
  await settled(page);
  assert.match(await text(page, "#side-a .timeline"), /16 of 64 pipeline ranks are drawn/);
  assert.match(await page.textContent("#a-nicrate option"), /^as is: \d+ Gb\/s$/);
  await page.selectOption("#a-scenario", "llama3-405b-16k");
  await settled(page);

  // A scenario with slow and broken parts: the controls begin there, and "none" makes them healthy.
  writeFileSync(join(folder, "slow.json"), JSON.stringify({ model: "llama-3-8b", cluster: { topology: "dgx-h100", world_size: 16 }, parallel: { tp: 2, dp: 8 }, training: { global_batch_size: 64, micro_batch_size: 1, seq_length: 8192, dtype: "bf16" },
    perturb: { slow_rank: { 0: 1.5 }, lost_rails: [0, 1], slow_nic: { 0: { 3: 0.5 } } } }));
  await page.setInputFiles("#a-file", join(folder, "slow.json"));
  await page.waitForFunction(() => tracecast.state.a.scenario === "slow");
  await settled(page);
  const controlSays = id => page.textContent(`label:has(#a-${id}) output`);
  assert.equal(await controlSays("slow"), "1.5 times as long");
  assert.equal(await controlSays("rails"), "2 of 8 NICs a node");
  const asItIs = await stepNow();
  for (const [key, check] of [["ArrowRight", step => step > asItIs], ["Home", step => step < asItIs]]) {
    await page.focus("#a-slow");
    await page.keyboard.press(key);
    await settled(page);
    assert(check(await stepNow()), `a slow GPU after ${key}`);
  }
  assert.equal(await controlSays("slow"), "none");
  assert.match(await text(page, "#side-a .command"), /--set 'perturb\.slow_rank=\{\}'/);
  await page.selectOption("#a-link", "0.5");
  await settled(page);
  assert.deepEqual(await page.evaluate(() => tracecast.state.a.set["perturb.slow_nic"]), { 0: { 0: 0.5, 3: 0.5 } });

  // A timeline that the server cannot give: its sentence in place of the picture, not the picture of another run.
  await page.route("**/api/forecast", (route, request) => request.postDataJSON().timeline ? route.fulfill({ json: { ok: false, errors: ["a forecast takes longer than 10 s"] } }) : route.continue());
  await page.selectOption("#a-scenario", "llama3-405b-16k");
  await page.waitForFunction(() => /No timeline: a forecast takes longer than 10 s/.test(document.querySelector("#side-a .timeline").textContent));
  assert.equal(await page.isVisible("#a-timeline"), false);
  await page.unroute("**/api/forecast");
  await page.click("#a-reset");
  await page.waitForFunction(() => tracecast.sides.a.timeline);
  assert(await page.isVisible("#a-timeline"));

  // Two side by side.
  await page.check("#two");
  await page.waitForFunction(() => tracecast.sides.b?.answer);
  await page.selectOption("#b-failures", "none");
  await settled(page);
  await page.selectOption("#b-recompute", "full");
  await settled(page);
  await page.waitForFunction(() => document.querySelector("#table td.better, #table td.worse"));
  const heads = await page.locator("#table th").allTextContents();
  assert.equal(heads[1], "A: llama3-405b-16k; failures llama3-54-days");
  assert.match(heads[2], /^B: llama3-405b-16k; [^;]+ and \d more$|^B: llama3-405b-16k; .*recompute full$/);
  assert.match(await page.textContent("#table"), /goodput[\d.]+ %100\.00 %\+[\d.]+ points/);
  assert.match(await page.textContent("#table"), /GPU-hours[\d,]+[\d,]+/);
  const both = await open({}, await page.evaluate(() => location.hash));
  await both.waitForFunction(() => tracecast.sides.b?.answer);
  assert.equal(await both.inputValue("#b-failures"), "none");
  assert.deepEqual(page.complaints, []);

  const link = await page.evaluate(() => location.hash);
  await looksOf("serve", async options => {
    const shown = await open(options, link);
    await shown.waitForFunction(() => tracecast.sides.a.timeline && tracecast.sides.b?.timeline);
    return shown;
  });
}

/// Every control of a run by keyboard alone: each list and slider moves, and moves back with what it was; buttons, boxes, the timeline.
async function keyboard(page, settled) {
  const kept = await page.evaluate(() => location.hash);
  const ids = await page.$$eval("#side-a select, #side-a input[type=range]", all => all.filter(e => e.offsetParent).map(e => e.id));
  assert(ids.length > 25, String(ids));
  const answered = () => page.waitForFunction(() => !tracecast.sides.a.busy && !tracecast.sides.a.again);
  for (const id of ids) {
    const now = () => page.inputValue(`#${id}`);
    const before = await now(), said = page.locator("#side-a .command");
    await page.focus(`#${id}`);
    const forward = await page.evaluate(id => { const e = document.getElementById(id); return e.type === "range" ? (Number(e.value) < Number(e.max) ? "ArrowRight" : "ArrowLeft") : [...e.options].slice(e.selectedIndex + 1).some(o => !o.disabled) ? "ArrowDown" : "ArrowUp"; }, id);
    const command = await said.textContent();
    await page.keyboard.press(forward);
    assert.notEqual(await now(), before, `${id} does not move by ${forward}`);
    await answered();
    const errors = await page.textContent("#side-a .errors");
    assert.doesNotMatch(errors, /\[object|\.json|undefined/, id);
    if (await page.isHidden("#side-a .errors")) assert.notEqual(await said.textContent(), command, id);
    await page.evaluate(hash => { location.hash = hash; }, kept);
    await page.waitForFunction(([id, value]) => document.getElementById(id).value === value, [id, before]);
    await answered();
  }
  await page.waitForFunction(() => tracecast.sides.a.timeline);
  await page.focus("#a-timeline");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowRight");
  assert.match(await page.textContent("#side-a .hint"), /^pp 0: forward of micro-batch/);
  await page.keyboard.press("ArrowDown");
  assert.match(await page.textContent("#side-a .hint"), /^pp 1: forward/);
  await page.focus("#theme");
  const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await paper();
  await page.keyboard.press("Enter");
  assert.notEqual(await paper(), light);
  await page.keyboard.press("Enter");
  await page.focus("#two");
  await page.keyboard.press("Space");
  await page.waitForFunction(() => tracecast.sides.b?.answer);
  await page.focus("#undo");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => !tracecast.state.two);
  await settled(page);
  await page.focus("#a-file");
  await Promise.all([page.waitForEvent("filechooser"), page.keyboard.press("Space")]);
  await page.focus("#side-a .save");
  await Promise.all([page.waitForEvent("download"), page.keyboard.press("Enter")]);
  await page.evaluate(hash => { location.hash = hash; }, kept);
  await settled(page);
  assert.deepEqual(page.complaints, []);
}
