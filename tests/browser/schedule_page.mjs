// Clicks through the page of `tracecast schedule --html` in Chromium, with the network off.
//   node schedule_page.mjs TRACECAST [FOLDER FOR SCREENSHOTS]
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import assert from "node:assert/strict";
import { inBrowser, looksOf, newPage, reachedByTab, tracecast } from "./browser.mjs";

let browser, folder;
await inBrowser(async (...given) => {
  [browser, folder] = given;
  await small();
  await large();
  await single();
});
console.log("the schedule page works");

async function open(words, options = {}) {
  const file = join(folder, "page.html");
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
  assert.match(await page.about(), /rank 1: backward of micro-batch 7, stage 1, from 29 to 31; the rank then keeps 0/);
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

  // Another schedule below, then none.
  await page.selectOption("#second", "2");
  assert.deepEqual((await page.at()).shown, [0, 2]);
  await page.selectOption("#second", "");
  assert.deepEqual((await page.at()).shown, [0]);

  // Everything that can be used can be reached with Tab.
  const reached = await reachedByTab(page, 20);
  for (const id of ["first", "second", "play", "back", "next", "slider", "in", "out", "fit", "theme", "picture", "command"]) {
    assert(reached.has(id), `Tab does not reach ${id}`);
  }
  const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await paper();
  await page.click("#theme");
  assert.notEqual(await paper(), light);
  assert.match(await page.textContent("#command"), /^tracecast schedule --schedule 1f1b --stages 4 --microbatches 8 --compare zb-h1,dualpipe --html /);
  assert.deepEqual(page.complaints, []);
  await looksOf("schedule", options => open(["--schedule", "1f1b", "--stages", "4", "--microbatches", "8", "--compare", "zb-h1,dualpipe"], options));
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
