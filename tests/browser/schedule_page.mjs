// Clicks through the page of `tracecast schedule --html` in Chromium, with the network off.
//   node schedule_page.mjs TRACECAST [FOLDER FOR SCREENSHOTS]
// Ends with 77 (skipped) when playwright-core or Chromium is not there.
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import assert from "node:assert/strict";

const skip = why => { console.log(`skipped: ${why}`); process.exit(77); };
const [tracecast, pictures] = process.argv.slice(2);
const { chromium } = await import("playwright-core").catch(() => skip("no playwright-core (npm ci in tests/browser)"));
const path = process.env.CHROMIUM ?? (() => {
  try { return execFileSync("which", ["chromium"], { encoding: "utf8" }).trim(); } catch { return skip("no chromium"); }
})();

const folder = mkdtempSync(join(tmpdir(), "tracecast-page-"));
const browser = await chromium.launch({ executablePath: path, args: ["--no-sandbox"] });
try {
  await small();
  await large();
  await single();
} finally {
  await browser.close();
  rmSync(folder, { recursive: true });
}
console.log("the schedule page works");

async function open(options, { dark = false, width = 1200, height = 1000 } = {}) {
  const file = join(folder, "page.html");
  execFileSync(tracecast, ["schedule", ...options, "--html", file]);
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: dark ? "dark" : "light", offline: true });
  const page = await context.newPage();
  page.on("pageerror", error => { throw error; });
  page.on("request", request => assert(request.url().startsWith("file:"), `asks the network for ${request.url()}`));
  await page.goto(pathToFileURL(file).href);
  page.shot = name => pictures && page.screenshot({ path: join(pictures, `${name}.png`), fullPage: true });
  page.about = () => page.textContent("#about");
  page.at = () => page.evaluate(() => ({ ...window.tracecast.state }));
  return page;
}

async function small() {
  const page = await open(["--schedule", "1f1b", "--stages", "4", "--microbatches", "8", "--compare", "zb-h1,dualpipe"]);
  await page.shot("small-light");
  assert.equal(await page.textContent("#title"), "4 ranks, 8 micro-batches: 1f1b, zb-h1, dualpipe");
  assert.deepEqual(await page.locator("#numbers tr").first().locator("td").allTextContents(),
    ["1f1b", "33", "24", "27.27 %", "4", "1×"]);

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
  await page.shot("small-playing");

  // Another schedule below, then none.
  await page.selectOption("#second", "2");
  assert.deepEqual((await page.at()).shown, [0, 2]);
  await page.shot("small-dualpipe");
  await page.selectOption("#second", "");
  assert.deepEqual((await page.at()).shown, [0]);

  // Everything that can be used can be reached with Tab.
  await page.evaluate(() => document.activeElement.blur());
  const reached = new Set();
  for (let i = 0; i < 20; ++i) {
    await page.keyboard.press("Tab");
    reached.add(await page.evaluate(() => document.activeElement.id));
  }
  for (const id of ["first", "second", "play", "back", "next", "slider", "in", "out", "fit", "theme", "picture"]) {
    assert(reached.has(id), `Tab does not reach ${id}`);
  }
  await page.click("#theme");
  await page.shot("small-dark");
}

async function large() {
  const page = await open(["--schedule", "interleaved-1f1b", "--stages", "16", "--microbatches", "64", "--compare", "zb-v"],
    { dark: true, width: 1600 });
  await page.shot("large-dark");
  await page.focus("#picture");
  await page.keyboard.press("End");
  await page.keyboard.press("End");
  assert.match(await page.about(), /rank 0: backward of micro-batch 63/);
  for (let i = 0; i < 10; ++i) await page.keyboard.press("+");
  await page.shot("large-zoomed");
}

async function single() {
  const page = await open(["--schedule", "gpipe", "--stages", "2", "--microbatches", "1"], { width: 480 });
  assert.equal(await page.isVisible("#choice"), false);
  await page.shot("single-narrow");
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  assert(wide <= 480, `${wide} pixels wide on a page of 480`);
}
