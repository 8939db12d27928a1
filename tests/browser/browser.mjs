// What the browser tests share: Chromium through playwright-core, a folder for pages, pages that may not ask the network.
// Ends with 77 (skipped) when playwright-core or Chromium is not there.
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import assert from "node:assert/strict";

export const skip = why => { console.log(`skipped: ${why}`); process.exit(77); };
export const [tracecast, pictures] = process.argv.slice(2);

export async function inBrowser(tests) {
  const { chromium } = await import("playwright-core").catch(() => skip("no playwright-core (npm ci in tests/browser)"));
  const path = process.env.CHROMIUM ?? (() => {
    try { return execFileSync("which", ["chromium"], { encoding: "utf8" }).trim(); } catch { return skip("no chromium"); }
  })();
  const folder = mkdtempSync(join(tmpdir(), "tracecast-page-"));
  const browser = await chromium.launch({ executablePath: path, args: ["--no-sandbox"] });
  try {
    await tests(browser, folder);
  } finally {
    await browser.close();
    rmSync(folder, { recursive: true });
  }
}

/// `allowed`: beginning of the addresses that the page may ask for.
export async function newPage(browser, { dark = false, width = 1280, height = 900, offline = true, allowed = "file:" } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: dark ? "dark" : "light", offline });
  const page = await context.newPage();
  page.on("pageerror", error => { throw error; });
  page.on("console", message => { if (message.type() === "error") page.complaints.push(message.text()); });
  page.complaints = [];
  page.setDefaultTimeout(10000);
  page.on("request", request => assert(request.url().startsWith(allowed) || request.url().startsWith("data:"), `asks the network for ${request.url()}`));
  page.shot = name => pictures && page.screenshot({ path: join(pictures, `${name}.png`), fullPage: true });
  page.tooWide = () => page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  return page;
}

/// Ids of everything that Tab reaches from the beginning of the page.
export async function reachedByTab(page, presses) {
  await page.evaluate(() => { document.activeElement.blur(); scrollTo(0, 0); });
  const reached = new Set();
  for (let i = 0; i < presses; ++i) {
    await page.keyboard.press("Tab");
    reached.add(await page.evaluate(() => document.activeElement.id));
  }
  return reached;
}

/// Every visible list and slider that matches moves with the arrow keys and back; true: it has somewhere to go.
export async function movesByKeyboard(page, selector) {
  const ids = await page.$$eval(selector, all => all.filter(e => e.offsetParent && (e.tagName === "SELECT" ? [...e.options].filter(o => !o.disabled).length > 1 : e.max !== e.min)).map(e => e.id));
  assert(ids.length > 0, `nothing to move in ${selector}`);
  for (const id of ids) {
    const value = () => page.inputValue(`#${id}`), before = await value();
    await page.focus(`#${id}`);
    const keys = id => { const e = document.getElementById(id), list = e.tagName === "SELECT"; return (list ? [...e.options].slice(e.selectedIndex + 1).some(o => !o.disabled) : Number(e.value) < Number(e.max)) ? ["ArrowDown", "ArrowUp"] : ["ArrowUp", "ArrowDown"]; };
    let [forward, back] = await page.evaluate(keys, id);
    if (await page.evaluate(id => document.getElementById(id).type === "range", id)) [forward, back] = [forward, back].map(k => k === "ArrowDown" ? "ArrowRight" : "ArrowLeft");
    await page.keyboard.press(forward);
    assert.notEqual(await value(), before, `${id} does not move by ${forward}`);
    await page.keyboard.press(back);
    assert.equal(await value(), before, `${id} does not move back by ${back}`);
  }
}

/// Opens a page in light and dark, at 1280 and 400 pixels: none is wider than its window, none complains.
export async function looksOf(name, open) {
  const kinds = { "light-1280": {}, "dark-1280": { dark: true }, "light-400": { width: 400 }, "dark-400": { width: 400, dark: true } };
  for (const [kind, options] of Object.entries(kinds)) {
    const page = await open(options);
    await page.waitForTimeout(100);
    assert(await page.tooWide() <= 0, `${name} ${kind} is wider than its window by ${await page.tooWide()}`);
    await page.shot(`${name}-${kind}`);
    assert.deepEqual(page.complaints, []);
    await page.context().close();
  }
}
