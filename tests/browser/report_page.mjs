// Opens the reports of predict, plan, goodput, compare and validate, and the decision page of plan in Chromium, with the network off.
//   node report_page.mjs TRACECAST [FOLDER FOR SCREENSHOTS]
import { execFileSync } from "node:child_process";
import { statSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import assert from "node:assert/strict";
import { inBrowser, looksOf, movesByKeyboard, newPage, reachedByTab, tracecast } from "./browser.mjs";

await inBrowser(async (browser, folder) => {
  const run = (name, ...words) => {
    const file = join(folder, `${name}.html`);
    execFileSync(tracecast, [...words, "--html", file], { stdio: ["ignore", "pipe", "inherit"] });
    return file;
  };
  const open = async (file, options) => {
    const page = await newPage(browser, options);
    await page.goto(pathToFileURL(file).href);
    await page.waitForFunction(() => document.querySelector("main").children.length > 0);
    return page;
  };
  const text = (page, selector) => page.textContent(selector);
  const looks = (name, file) => looksOf(name, options => open(file, options));

  // predict: 16,384 GPUs.
  const predict = run("predict", "predict", "llama3-405b-16k", "--explain");
  assert(statSync(predict).size < 4e6, "a report of 16,384 GPUs is no larger than a picture");
  const page = await open(predict);
  assert.match(await text(page, "#title"), /llama-3.1-405b on 16,384 × H100/);
  assert.match(await text(page, "#section-summary"), /step time6\.\d+ s90 % between/);
  assert.match(await text(page, "#command"), /^tracecast predict llama3-405b-16k --explain --html /);
  assert.match(await text(page, "#scenario"), /"num_layers": 126/);

  // The parts of the step sum to the step.
  const sums = await page.evaluate(() => { const parts = stepParts(data.result); return [parts.reduce((a, p) => a + p.value, 0), data.result.step_time_s]; });
  assert(Math.abs(sums[0] / sums[1] - 1) < 0.02, `parts sum to ${sums[0]} of ${sums[1]}`);

  assert.match(await text(page, "#section-causes"), /matrix multiplications\d+\.\d %/);
  assert.match(await text(page, "#nav"), /Bottlenecks of the step/);
  assert.deepEqual(await page.evaluate(() => [ticks(0, 6.9, 9).map(t => trimmed(digits(t))), ticks(4.8, 5.6, 6).map(t => trimmed(digits(t))), digits(9216, 9), digits(1024), digits(12.345), digits(0.62), digits(9.4)]),
    [["0", "1", "2", "3", "4", "5", "6"], ["4.8", "5", "5.2", "5.4", "5.6"], "9,216", "1,024", "12.3", "0.620", "9.40"]);

  // Timeline: point, walk, zoom to the operator, drag, everything from the keyboard.
  const box = async () => page.locator("#timeline").boundingBox();
  await page.locator("#timeline").scrollIntoViewIfNeeded();
  const state = () => page.evaluate(() => ({ from: tracecast.state.from, to: tracecast.state.to, whole: tracecast.whole, picked: Boolean(tracecast.state.picked) }));
  await page.mouse.move((await box()).x + 700, (await box()).y + 30);
  assert.match(await text(page, "#about"), /^ranks .*, compute: .*; \d.* from .*; (measured|interpolated|analytic)$/);
  await page.focus("#timeline");
  for (let i = 0; i < 14; ++i) await page.keyboard.press("+");
  let now = await state();
  assert((now.to - now.from) < now.whole / 500, "fourteen presses zoom in to operators");
  const before = await text(page, "#about");
  await page.keyboard.press("ArrowRight");
  assert.notEqual(await text(page, "#about"), before);
  await page.keyboard.press("ArrowDown");
  assert.match(await text(page, "#about"), /, (?!compute)\S.*: /);
  await page.keyboard.press("Home");
  await page.keyboard.press("0");
  await page.waitForFunction(() => tracecast.state.to === tracecast.whole);
  await page.click("#in");
  await page.mouse.move((await box()).x + 600, (await box()).y + 60);
  await page.mouse.down();
  await page.mouse.move((await box()).x + 400, (await box()).y + 60, { steps: 5 });
  await page.mouse.up();
  assert((await state()).from > now.whole * 0.05, "dragging moves the timeline");
  await page.check("#every");
  assert(await page.evaluate(() => tracecast.lanes.length) > 40);
  await page.uncheck("#every");

  // An operator says its shape, layer and work; a selected range is summed, by keyboard and by dragging.
  await page.evaluate(() => { const lane = tracecast.lanes[0]; tracecast.pick(lane, lane.list.findIndex(i => lane.record.works[lane.spans.work[i]].name === "qkv")); });
  assert.match(await text(page, "#about"), /^ranks .* \(pp 0\), compute: qkv \(forward\), gemm, bf16 8192 x \d+ x 16384, in forward chunk 1, layer 15, micro-batch \d+; .*; \d+ GFLOP; \d+ MiB; interpolated$/);
  await page.focus("#timeline");
  await page.keyboard.press("[");
  for (let i = 0; i < 30; ++i) await page.keyboard.press("ArrowRight");
  await page.keyboard.press("]");
  const range = await page.evaluate(() => {
    const range = tracecast.state.range, sum = tracecast.sumOf(range), spans = tracecast.lanes[0].spans;
    let ns = 0, flop = 0;
    for (const i of tracecast.lanes[0].list) if (spans.start[i] >= range.from && spans.end[i] <= range.to) { ns += spans.end[i] - spans.start[i]; flop += tracecast.records[0].works[spans.work[i]].flop; }
    return [sum.compute, ns, sum.flop, flop, sum.rows.reduce((all, row) => all + row.count, 0)];
  });
  assert.equal(range[0], range[1]);
  assert(Math.abs(range[2] / range[3] - 1) < 1e-9 && range[4] === 31, String(range));
  assert.match(await text(page, "#sum"), /on 1 row of computation: [\d.]+ % computing, .* TFLOP\/s per GPU/);
  await page.keyboard.press("Escape");
  assert.equal(await text(page, "#sum"), "");
  await page.keyboard.press("0");
  await page.check("#selects");
  await page.mouse.move((await box()).x + 500, (await box()).y + 30);
  await page.mouse.down();
  await page.mouse.move((await box()).x + 700, (await box()).y + 120, { steps: 5 });
  await page.mouse.up();
  assert.match(await text(page, "#sum"), /on [2-9] rows of computation/);
  assert.match(await text(page, "#sum"), /fc1 wgradgemm\d+/);
  await page.uncheck("#selects");
  await page.focus("#timeline");
  await page.keyboard.press("Escape");

  // Words of the glossary link to their definitions at the end of the page.
  assert((await page.$$("a.term")).length > 20);
  await page.click("#section-time a.term >> nth=0");
  await page.waitForFunction(() => document.querySelector("#terms").getBoundingClientRect().top < innerHeight);
  assert.match(await text(page, "#terms"), /exposed communicationTime in which the compute stream is idle because it waits/);

  // 80,000 spans stay smooth: the whole step and twenty zoom levels, each drawn in less than two frames.
  const slowest = await page.evaluate(() => {
    let most = 0, spans = 0;
    for (const rank of data.timelines[0].ranks) spans += rank.count;
    for (let span = tracecast.whole; span > 1e4; span /= 2) {
      tracecast.state.from = (tracecast.whole - span) / 2; tracecast.state.to = tracecast.state.from + span;
      const times = [0, 1, 2].map(() => { tracecast.draw(); return tracecast.drawMs; });
      most = Math.max(most, Math.min(...times));
    }
    tracecast.show(0, tracecast.whole);
    return { most, spans };
  });
  console.log(`${slowest.spans} spans, slowest frame ${slowest.most.toFixed(1)} ms`);
  assert(slowest.spans > 70000 && slowest.most < 33, JSON.stringify(slowest));

  // Durations can be filtered and sorted, memory and traffic chosen by class.
  const all = await text(page, "#shown");
  await page.fill("#filter", "attention");
  assert.notEqual(await text(page, "#shown"), all);
  await page.fill("#filter", "nothing like this");
  assert.match(await text(page, "#shown"), /^0 of /);
  await page.selectOption("#memory-rank", "3");
  assert.match(await text(page, "#section-memory"), /from \d+\.\d GiB to \d+\.\d GiB at/);
  await page.selectOption("#traffic-rank", "2");
  assert.match(await text(page, "#section-network"), /network, per GPU: [\d.]+ [KMGT]iB per step, .* of 50 GB\/s/);
  assert.deepEqual(await page.evaluate(() => [bytesText(0), bytesText(1023), bytesText(2 ** 29), rateText(5e10)]), ["0 B", "1,023 B", "512 MiB", "50 GB/s"]);
  await movesByKeyboard(page, "#memory-rank, #traffic-rank");
  const lanes = () => page.evaluate(() => tracecast.lanes.length);
  const few = await lanes();
  await page.focus("#every");
  await page.keyboard.press("Space");
  assert(await lanes() > few);
  await page.keyboard.press("Space");
  await page.focus("#in");
  await page.keyboard.press("Enter");
  const zoomed = await state();
  assert(zoomed.to - zoomed.from < zoomed.whole);
  await page.focus("#fit");
  await page.keyboard.press("Enter");
  await page.focus("#section-time th button >> nth=0");  // sorts
  const part = () => text(page, "#section-time tbody td");
  const largest = await part();
  await page.keyboard.press("Enter");
  assert.notEqual(await part(), largest);
  const reached = await reachedByTab(page, 60);
  for (const id of ["theme", "in", "out", "fit", "every", "selects", "timeline", "memory-rank", "traffic-rank", "filter"]) assert(reached.has(id), `Tab does not reach ${id}`);
  const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await paper();
  await page.click("#theme");
  assert.notEqual(await paper(), light);
  assert.deepEqual(page.complaints, []);
  await looks("predict", predict);

  // What is slow or broken is named.
  const small = await open(run("small", "predict", "zero-1-7.5b", "--set", "perturb.slow_rank.5=1.3"));
  assert.match(await text(small, "#section-time"), /Perturbations/);
  // Of many parts the four largest have the step with each of them alone.
  const many = await open(run("many", "predict", "zero-1-7.5b", ...[1, 2, 3, 4, 5, 6].flatMap(r => ["--set", `perturb.slow_rank.${r}=1.${r}`])));
  assert.match(await text(many, "#section-time"), /computes 1\.6 times as long[\d.]+ m?s with it alone/);
  assert.doesNotMatch(await text(many, "#section-time"), /–/);
  // The parts of What --set changes sum to the step, small ones as "other".
  const changed = await many.$$eval("#section-change tbody tr", rows => rows.map(row => [...row.cells].map(cell => cell.textContent)));
  const seconds = cell => parseFloat(cell) * ({ ms: 1e-3, s: 1, µs: 1e-6 })[cell.split(" ")[1]];
  const moved = changed.filter(row => row[0].startsWith("· "));
  assert(changed.some(row => row[0] === "· other"));
  for (const column of [1, 2]) assert(Math.abs(moved.reduce((sum, row) => sum + seconds(row[column]), 0) / seconds(changed[0][column]) - 1) < 0.01);

  // A mean over a period: the page says what averages, which step is drawn, and traffic per step.
  const mean = await open(run("mean", "predict", "diloco-10b"));
  assert.match(await text(mean, "#section-summary"), /averaging183 s with it, 25\.9 s without1 of every 100 steps, over 14 replicas/);
  for (const part of ["timeline", "memory"]) assert.match(await text(mean, `#section-${part}`), /The step that is drawn averages parameters: 183 s, where the mean step takes 27\.\d s/);
  const sent = await mean.evaluate(() => data.traffic[0].find(t => t.traffic === "parameters" && t.collective === "all_reduce").sent);
  const [perStep, ends] = await mean.evaluate(() => [data.result.averaging.sent_bytes_per_step, data.memory_over_time[0].at(-1)[0] <= data.timelines[0].step_s]);
  assert(Math.abs(sent / perStep - 1) < 1e-6 && ends);
  assert.match(await text(await open(run("packed", "predict", "llama3-8b-packed", "--set", "training.documents.steps=2")), "#section-summary"), /documents[\d,]+ useful tokens\/s.*9\d\.\d % of the tokens are not padding/);

  const plan = run("plan", "plan", "llama3-405b-1024", "--best", "3", "--gpus", "512,1024", "--recipe");
  const planned = await open(plan);
  assert.match(await text(planned, "#section-search"), /simulated/);
  await planned.selectOption("#offer", "2");
  assert.match(await text(planned, "#detail"), /tp \d+ .*step [\d.]+ s, bound/s);
  await movesByKeyboard(planned, "#offer");
  await looks("plan", plan);
  assert.match(await text(planned, "#section-upgrades"), /^Upgrades, each with a new searchwithstepsaves per token/);
  // A target, money of less than a million, and stages of different lengths.
  const cheap = await open(run("cheap", "plan", "llama3-70b-two-generations", "--tokens", "1B", "--days", "0.31", "--tp", "8", "--pp", "2,4", "--vpp", "1,2", "--micro-batch", "1", "--best", "4", "--no-upgrades", "--failures", "none"));
  assert.match(await text(cheap, "#detail"), /stages of \d+, \d+, \d+, \d+ layers/);
  assert.match(await text(cheap, "#section-best"), /layoutmisses1.*not 0\.31/s);
  assert.match(await text(cheap, "#section-front"), /Open circles miss the target\./);

  // The decision page has no script: what is printed must be right and readable as it is.
  const decision = join(folder, "decision.html");
  execFileSync(tracecast, ["plan", "llama2-7b-abci", "--topology", "abci-a,dgx-h100", "--gpus", "32,64", "--tp", "1,2", "--pp", "1,2", "--objective", "cost",
    "--tokens", "100B", "--term", "owned", "--no-upgrades", "--page", decision], { stdio: ["ignore", "pipe", "inherit"] });
  const decided = await open(decision);
  const cells = selector => decided.$$eval(selector, all => all.map(cell => cell.textContent));
  const amount = cell => Number(cell.replaceAll(",", ""));
  assert.match(await text(decided, "#section-answer"), /Take \d+ GPUs of .* days and [\d,]+ USD/);
  const [first] = await cells("#section-candidates tbody tr:first-child td:nth-child(6)");
  assert((await text(decided, "#section-answer")).includes(`${first} USD`), "the answer is the first candidate");
  const lines = (await cells("#section-money tbody td:nth-child(2)")).map(amount);
  const total = lines.pop();
  assert.equal(total, amount(first));
  assert(lines.length > 3 && Math.abs(lines.reduce((a, b) => a + b, 0) - total) < lines.length, `the lines ${lines} sum to ${total}`);
  assert.equal(await decided.$eval("#section-sizes polyline, #section-trade-off polyline.c0", line => getComputedStyle(line).fill), "none");
  assert.equal((await cells("#section-trade-off svg, #section-sizes svg, #section-money svg")).length, 3);
  assert((await cells("#section-changes li")).length > 0 && (await cells("#section-assumptions li")).length > 3);
  await looks("decision", decision);

  const goodput = run("goodput", "goodput", "llama3-405b-16k", "--days", "54", "--failures", "llama3-54-days");
  const good = await open(goodput);
  assert.match(await text(good, "#section-summary"), /goodput\d+\.\d+ %/);
  assert.match(await text(good, "#section-summary"), /failures asllama3-54-days15 spare nodes, cold; restart 6\.\d+ min after a crash/);
  assert.match(await text(good, "#section-summary"), /to finish[\d.]+ daysP10 [\d.]+, P90 [\d.]+ days; 15\.6 T tokens/);
  await looks("goodput", goodput);
  // A job that ends before its horizon: days are those that it takes.
  const until = await open(run("until", "goodput", "llama3-405b-16k", "--no-best", "--until", "1e12"));
  assert.match(await text(until, "#section-summary"), /in 4\.9\d days, not planned/);
  assert.match(await text(until, "#section-time"), /of 4\.9\d days.*4\.[56]\d? days/s);

  const root = new URL("../../docs/validation/", import.meta.url).pathname;
  const compare = run("compare", "compare", join(root, "cpu-forecast.json"), join(root, "cpu-executed.json"), "--tolerance", "1");
  const compared = await open(compare);
  assert.match(await text(compared, "#section-summary"), /error/);
  assert.equal(await compared.evaluate(() => tracecast.records.length), 2);
  assert.equal(await compared.evaluate(() => Object.entries(KIND_COLOURS).some(([kind, colour]) => kind !== "gemm" && kind !== "optimizer" && Object.values(PHASE_COLOURS).includes(colour))), false, "a colour of two things");
  assert.deepEqual(await compared.evaluate(() => tracecast.lanes.filter(lane => lane.compute).map(lane => lane.name)), ["rank 0 forecast", "rank 0 actual", "rank 1 forecast", "rank 1 actual"]);
  await compared.focus("#timeline");
  await compared.keyboard.press("ArrowRight");
  assert.match(await text(compared, "#about"), /rank 0, compute/);
  await looks("compare", compare);

  const validate = run("validate", "validate", "korthikanti");
  const validated = await open(validate);
  assert.match(await text(validated, "#section-summary"), /runs compared8/);
  assert.match(await text(validated, "#command"), /^tracecast validate korthikanti --html /);
  await validated.focus("#scatter");
  await validated.keyboard.press("Home");
  const errorNow = async () => Number(/^korthikanti-.*: forecast .*; measured .*; error ([-+][\d.]+) %/.exec(await text(validated, "#about"))[1]);
  const least = await errorNow();
  await validated.keyboard.press("ArrowRight");
  const next = await errorNow();
  await validated.keyboard.press("End");
  assert(least < next && next < await errorNow(), "the keyboard walks from the least error to the largest");
  await validated.fill("#filter", "530b");
  assert.match(await text(validated, "#shown"), /^2 of 8 runs/);
  await validated.selectOption("#group", "stack");
  assert.match(await text(validated, "#section-groups"), /stackruns/);
  await movesByKeyboard(validated, "#group");
  await looks("validate", validate);
});
console.log("the reports work");
