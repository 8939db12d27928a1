// Opens pages and pictures of a scenario whose name and description try to run a script or to end the page's own one.
//   node hostile_names.mjs TRACECAST
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import assert from "node:assert/strict";
import { inBrowser, newPage, tracecast } from "./browser.mjs";

const run = "document.documentElement.dataset.ran=1";
// In a name: no slash. "<!--" and then "<script" would swallow the end of the page's own script.
const name = `q<!--<script>"'&<set attributeName="x" onbegin="${run}"><img src=x onerror="${run}">`;
const swallows = `<!-- <script> ${name}`;
const ends = `</script><script>${run}</script><svg onload="${run}">`;

await inBrowser(async (browser, folder) => {
  const shipped = readFileSync(new URL("../../scenarios/teaching/pipeline-1f1b.json", import.meta.url), "utf8");
  const scenario = join(folder, `${name}.json`);
  const describe = description => writeFileSync(scenario, JSON.stringify({ ...JSON.parse(shipped), description }));
  const ranSomething = page => page.evaluate(() => document.documentElement.dataset.ran !== undefined);
  const open = async path => {
    const page = await newPage(browser);
    await page.goto(pathToFileURL(path).href);
    await page.waitForFunction(() => (document.querySelector("main") ?? document.querySelector("#title"))?.childNodes.length > 0);
    await page.waitForTimeout(200);
    assert(!await ranSomething(page), `${path} ran a script of the name`);
    await page.context().close();
  };
  for (const [description, command, ...options] of [[ends, "predict"], [swallows, "predict"], [swallows, "plan", "--no-upgrades", "--best", "2", "--failures", "none"], [swallows, "goodput", "--histories", "5"]]) {
    describe(description);
    const html = join(folder, `${command}.html`);
    execFileSync(tracecast, [command, scenario, ...options, "--html", html], { stdio: ["ignore", "pipe", "inherit"] });
    await open(html);
  }
  const svg = join(folder, "schedule.svg"), html = join(folder, "schedule.html");
  execFileSync(tracecast, ["schedule", "--times-from", scenario, "--svg", svg, "--html", html], { stdio: ["ignore", "pipe", "inherit"] });
  await open(html);
  const page = await newPage(browser);
  await page.setContent(readFileSync(svg, "utf8"));
  await page.waitForTimeout(200);
  assert(!await ranSomething(page), "the picture ran a script of the name");
  assert.match(await page.textContent("svg"), /q<!--<script>/);
  console.log("names are text on every page and picture");
});
