// Clicks through the page of `tracecast schedule --html` in Chromium, with the network off.
//   node schedule_page.mjs TRACECAST [FOLDER FOR SCREENSHOTS]
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import assert from "node:assert/strict";
import { inBrowser, looksOf, movesByKeyboard, newPage, reachedByTab, tracecast } from "./browser.mjs";

let browser, folder, pages = 0;
await inBrowser(async (...given) => {
  [browser, folder] = given;
  await small();
  await large();
  await single();
});
console.log("the schedule page works");

async function open(words, options = {}) {
  const file = join(folder, `page${++pages}.html`);
  execFileSync(tracecast, ["schedule", ...words, "--html", file], { stdio: ["ignore", "pipe", "inherit"] });
  const page = await newPage(browser, options);
  await page.goto(pathToFileURL(file).href);
  page.about = () => page.textContent("#about");
  page.at = () => page.evaluate(() => ({ ...window.tracecast.state }));
  return page;
}

async function small() {
  const page = await open(["--schedule", "1f1b", "--stages", "4", "--microbatches", "8", "--compare", "zb-h1,dualpipe"]);
  assert.equal(await page.textContent("#title"), "4 ranks, 8 micro-batches: 1f1b, zb-h1, dualpipe");
  assert.deepEqual(await page.locator("#numbers tr").first().locator("td").allTextContents(),
    ["1f1b", "33", "24", "27.27 %", "27.27 %", "4", "1×"]);

  // Point at a box: rank 0's F0 is the first.
  await page.mouse.move(20 + 66 + 10, (await page.locator("#picture").boundingBox()).y + 60);
  assert.match(await page.about(), /^1f1b, rank 0: forward of micro-batch 0, stage 0, from 0 to 1;/);

  // By keyboard: to the next box, to the rank below, to its end; then through time.
  await page.focus("#picture");
  for (const key of ["ArrowRight", "ArrowRight"]) await page.keyboard.press(key);
  assert.match(await page.about(), /rank 0: forward of micro-batch 2/);
  assert.equal((await page.at()).time, 2);
  await page.keyboard.press("ArrowDown");
  assert.match(await page.about(), /rank 1: forward of micro-batch 1.*from 2 to 3/);
  await page.keyboard.press("End");
  assert.match(await page.about(), /rank 1: backward of micro-batch 7, stage 1, from 29 to 31, after it waited 1 for rank 2; the rank then keeps 0/);
  await page.keyboard.press("Home");
  assert.equal((await page.at()).time, 1);
  await page.keyboard.press(".");
  assert.equal((await page.at()).time, 2);
  await page.keyboard.press(",");
  assert.equal((await page.at()).time, 1);
  for (let i = 0; i < 3; ++i) await page.keyboard.press("ArrowDown");  // on to the picture below
  assert.match(await page.about(), /^zb-h1, rank 0/);

  // Zoom in and back.
  await page.keyboard.press("+");
  let s = await page.at();
  assert(s.to - s.from < 33);
  await page.keyboard.press("0");
  s = await page.at();
  assert.deepEqual([s.from, s.to], [0, 33]);

  // Step with the buttons, drag the slider, play.
  await page.click("#next");
  assert((await page.at()).time > 1);
  await page.fill("#slider", "500");
  assert.equal((await page.at()).time, 16.5);
  await page.click("#play");
  await page.waitForFunction(() => window.tracecast.state.time > 17);
  await page.click("#play");
  assert.equal((await page.at()).playing, false);

  await lab(page);

  // By keyboard alone: lists, sliders, buttons.
  await movesByKeyboard(page, "select, input[type=range]:not(#slider)");
  await page.focus("#picture");
  await page.keyboard.press("Home");
  const time = (await page.at()).time;
  await page.focus("#next");
  await page.keyboard.press("Enter");
  assert((await page.at()).time > time);
  await page.focus("#slider");
  await page.keyboard.press("End");
  assert((await page.at()).time > time + 10);
  await page.focus("#play");
  for (const playing of [true, false]) {
    await page.keyboard.press("Space");
    assert.equal((await page.at()).playing, playing);
  }
  await page.focus("#save");
  await Promise.all([page.waitForEvent("download"), page.keyboard.press("Enter")]);

  // Everything that can be used can be reached with Tab.
  const reached = await reachedByTab(page, 40);
  for (const id of ["lab-first", "lab-second", "lab-stages", "lab-microbatches", "lab-f", "lab-i", "lab-w", "lab-latency", "lab-rank", "lab-limit", "undo", "save", "svg-width", "exercise", "guess", "check", "reveal", "play", "back", "next", "slider", "in", "out", "fit", "theme", "picture", "command"]) {
    assert(reached.has(id), `Tab does not reach ${id}`);
  }
  const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await paper();
  await page.click("#theme");
  assert.notEqual(await paper(), light);
  assert.deepEqual(page.complaints, []);
  await looksOf("schedule", options => open(["--schedule", "1f1b", "--stages", "4", "--microbatches", "8", "--compare", "zb-h1,dualpipe"], options));
}

/// Sliders, reasons, undo, a link, the picture for a slide, exercises. Numbers are those of the command line.
async function lab(page) {
  const numbers = () => page.locator("#numbers tr").first().locator("td").allTextContents();
  const slide = async (id, wanted) => {
    await page.focus(id);
    await page.keyboard.press("Home");
    for (let i = 0; i < 60 && (await page.textContent(`label:has(${id}) output`)) !== wanted; ++i) await page.keyboard.press("ArrowRight");
    assert.equal(await page.textContent(`label:has(${id}) output`), wanted);
  };
  // The page's own run of every schedule shown is the program's.
  assert.deepEqual(await page.evaluate(() => data.views.map(v => JSON.stringify(labView(v.name, labState).rows.map(l => l.map(b => [b.kind, b.stage, b.m, b.start, b.end]))) ===
    JSON.stringify(v.rows.map(l => l.map(b => [b.kind, b.stage, b.m, b.start, b.end]))))), [true, true, true]);
  await page.selectOption("#lab-second", "");
  assert.equal(await page.locator("#numbers tr").count(), 1);
  await slide("#lab-microbatches", "16");
  // 3 of 19 slots are filling and draining: (P - 1) / (M + P - 1).
  assert.deepEqual((await numbers()).slice(0, 4), ["1f1b", "57", "48", "15.79 %"]);
  await slide("#lab-f", "1.5");
  assert.equal((await numbers())[1], "66.5");  // 19 x (1.5 + 2)
  await slide("#lab-latency", "0.5");
  const said = JSON.parse(execFileSync("bash", ["-c", `${tracecast} ${(await page.textContent("#command")).replace(/^tracecast /, "")} --json`], { encoding: "utf8" }));
  assert.equal(said.makespan, Number((await numbers())[1]));
  await page.click("#undo");
  assert.equal((await numbers())[1], "66.5");

  // The command gives the page's numbers also where only the second schedule has chunks to choose.
  await page.selectOption("#lab-second", "interleaved-1f1b");
  await slide("#lab-chunks", "4");
  const rows = await page.$$eval("#numbers tr", all => all.map(row => [...row.cells].map(cell => cell.textContent)));
  const printed = JSON.parse(execFileSync("bash", ["-c", `${tracecast} ${(await page.textContent("#command")).replace(/^tracecast /, "")} --json`], { encoding: "utf8" }));
  for (const row of rows) assert.equal([printed, ...printed.compare].find(s => s.schedule === row[0]).makespan, Number(row[1]));
  // An order that was searched for other times is said to be.
  assert.equal(await page.textContent("#searched"), "");
  await page.selectOption("#lab-second", "zb-auto");
  assert.match(await page.textContent("#searched"), /^The order of zb-auto above was searched for F, I and W of 1/);
  await page.selectOption("#lab-second", "");

  // What a schedule cannot do is said, with what it can.
  await page.selectOption("#lab-first", "dualpipe");
  await slide("#lab-microbatches", "6");
  assert.match(await page.textContent("#refused"), /^dualpipe needs an even number of at least 2 x stages = 8\. With 4 ranks M may be 8, 10, 12/);
  await slide("#lab-microbatches", "10");
  assert.equal(await page.isVisible("#refused"), false);

  // Schedules with two copies of the model have no times per rank, as the command says.
  await page.selectOption("#lab-rank", "2");
  await slide("#lab-f", "3");
  assert.equal(await page.textContent("#refused"), "dualpipe has each stage on two ranks; times per rank need one copy of the model. Give all ranks the same times.");
  await page.click("#undo");
  await page.selectOption("#lab-rank", "-1");
  assert.equal(await page.isVisible("#refused"), false);

  // Ranks with times of their own: as the command line has it, and as a file of such times begins.
  await page.selectOption("#lab-first", "gpipe");
  await slide("#lab-microbatches", "8");
  await page.selectOption("#lab-rank", "2");
  await slide("#lab-f", "3");
  await slide("#lab-w", "2.5");
  const command = await page.textContent("#command"), makespan = Number((await numbers())[1]);
  assert.match(command, / --tf 1\.5,1\.5,3,1\.5 --tw 1,1,2\.5,1/);
  assert.equal(JSON.parse(execFileSync("bash", ["-c", `${tracecast} ${command.replace(/^tracecast /, "")} --json`], { encoding: "utf8" })).makespan, makespan);
  const uneven = await open([...command.split(" ").slice(2)]);
  assert.equal(await uneven.textContent("label:has(#lab-f) output"), "1.5 to 3");
  await uneven.selectOption("#lab-second", "zb-h1");
  assert.equal(Number(await uneven.locator("#numbers tr").first().locator("td").nth(1).textContent()), makespan);
  await uneven.focus("#lab-f");
  await uneven.keyboard.press("Home");  // of all ranks
  assert.equal(await uneven.textContent("label:has(#lab-f) output"), "0");
  assert.deepEqual(uneven.complaints, []);

  // A limit, and for whom an idle rank waits.
  await slide("#lab-limit", "4 micro-batches");
  assert.equal(await page.locator("#numbers td.bad").count(), 1);
  const box = await page.locator("#picture").boundingBox();
  await page.mouse.move(box.x + 66 + 3, box.y + 46 + 44 + 10);
  assert.match(await page.about(), /^gpipe, rank 1: idle for 1\.5 until 1\.5; it waits for rank 0: the forward of micro-batch 0, stage 0, made at 1\.5/);

  // A picture for a slide has the width asked for.
  await page.selectOption("#svg-width", "960");
  const [saved] = await Promise.all([page.waitForEvent("download"), page.click("#save")]);
  const file = join(folder, "slide.svg");
  await saved.saveAs(file);
  assert.match(readFileSync(file, "utf8"), /^<svg [^>]*width="960"/);

  // The link restores what is shown.
  const other = await newPage(browser, {});
  await other.goto(page.url());
  assert.equal(await other.inputValue("#lab-first"), "gpipe");
  assert.equal(await other.inputValue("#lab-rank"), "2");
  assert.equal(await other.textContent("label:has(#lab-f) output"), "3");
  assert.deepEqual(other.complaints, []);
  await other.goto("about:blank");
  await other.goto(page.url().replace(/#.*/, "#%7B%22stages%22%3A%22x%22%2C%22first%22%3A%22y%22%7D"));
  assert.equal(await other.inputValue("#lab-first"), "1f1b");  // values that no control has are left out

  // Exercises: closed forms of docs/tutorial/schedules.md.
  const answers = ["27.3", "4", "15.8", "11.1", "7"];
  for (let i = 0; i < answers.length; ++i) {
    await page.selectOption("#exercise", String(i));
    await page.fill("#guess", "1");
    await page.click("#check");
    assert.match(await page.textContent("#revealed"), /^Not quite\. /);
    await page.fill("#guess", answers[i]);
    await page.keyboard.press("Enter");
    assert.match(await page.textContent("#revealed"), /^Right\. /, `exercise ${i + 1}`);
  }
  await page.selectOption("#exercise", "5");
  await page.click("#reveal");
  assert.match(await page.textContent("#revealed"), /^ZB-H1 needs 35\.8, 1F1B 33/);
  await page.selectOption("#exercise", "6");
  await page.selectOption("#guess-choice", "1");
  await page.click("#check");
  const cycle = await page.textContent("#revealed");
  assert.match(cycle, /^Right\. It stops, in a cycle: rank 2 sends the activations of micro-batch 1 to rank 3.*rank 3 sends the gradient of micro-batch 0 to rank 2/);
  await page.selectOption("#exercise", "7");
  await page.fill("#guess", "45");
  await page.click("#check");
  assert.match(await page.textContent("#revealed"), /^Right\. 45: /);
  await page.selectOption("#exercise", "0");
  // The program finds the same cycle.
  const refused = execFileSync("bash", ["-c", `${tracecast} schedule --schedule 1f1b --sends rendezvous --comm-streams compute 2>&1 || true`], { encoding: "utf8" });
  assert.match(refused, /rank 2 \(compute 0, 2SEND_F, micro-batch 1\) waits for rank 3.*rank 3 \(compute 0, 3SEND_B, micro-batch 0\) waits for rank 2/);
}

async function large() {
  const page = await open(["--schedule", "interleaved-1f1b", "--stages", "16", "--microbatches", "64", "--compare", "zb-v"],
    { dark: true, width: 1600, height: 1000 });
  await page.focus("#picture");
  await page.keyboard.press("End");
  await page.keyboard.press("End");
  assert.match(await page.about(), /rank 0: backward of micro-batch 63/);
  for (let i = 0; i < 10; ++i) await page.keyboard.press("+");
  const { from, to } = await page.at();
  assert(to - from < 30, "ten presses zoom in");
  await page.shot("schedule-large-zoomed");
}

async function single() {
  const page = await open(["--schedule", "gpipe", "--stages", "2", "--microbatches", "1"], { width: 400 });
  assert.equal(await page.isVisible("#choice"), false);
  assert(await page.tooWide() <= 0, `wider than its window by ${await page.tooWide()}`);
}
