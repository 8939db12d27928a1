// Drives the what-if page of `tracecast serve` in Chromium: drag, compare, restore from a link, errors, keyboard, export.
//   node serve_page.mjs TRACECAST [FOLDER FOR SCREENSHOTS]
import { spawn, execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
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
  const settled = page => page.waitForFunction(() => window.tracecast?.sides.a && Object.values(tracecast.sides).every(s => !s.busy && (s.answer || s.failed)));
  const text = (page, selector) => page.textContent(selector);
  const card = (page, side, name) => page.locator(`#side-${side} .card`, { hasText: name }).locator("b").textContent();

  const page = await open();
  assert.equal(await page.inputValue("#a-scenario"), "llama3-405b-16k");
  assert.doesNotMatch(await text(page, "#side-a"), /\[object/);
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
  const times = await page.evaluate(() => [...tracecast.sides.a.latencies].sort((x, y) => x - y));
  console.log(`${times.length} answers while dragging, slowest ${times[times.length - 1].toFixed(0)} ms`);

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
  const reached = await reachedByTab(page, 40);
  for (const id of ["two", "link", "theme", "a-scenario", "a-topology", "a-gpus", "a-batch", "a-tp", "a-schedule", "a-rails", "a-uplinks", "a-failures", "a-mtbf", "a-checkpoint", "a-spares", "a-reset"]) {
    assert(reached.has(id), `Tab does not reach ${id}`);
  }

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

  // An error is the sentence of the command line, and goes away.
  await page.selectOption("#a-pp", "64");
  await settled(page);
  const sentence = await page.textContent("#side-a .errors div");
  let said = "";
  try { execFileSync("bash", ["-c", `${tracecast} ${(await page.evaluate(() => commandLines(tracecast.state.a))).split("\n")[0].replace(/^tracecast /, "")}`], { stdio: ["ignore", "pipe", "pipe"] }); } catch (error) { said = String(error.stderr); }
  said = said.replaceAll(/^.*\/(?=[^/]*\.json:)/gm, "");  // the page leaves out where files lie
  assert(said.split("\n").includes(sentence), `page: ${sentence}\ncommand line: ${said}`);
  await page.click("#a-reset");
  await settled(page);
  assert.equal(await page.isVisible("#side-a .errors"), false);
  assert.equal(await card(page, "a", "step time"), before);

  // Two side by side.
  await page.check("#two");
  await page.waitForFunction(() => tracecast.sides.b?.answer);
  await page.selectOption("#b-failures", "none");
  await settled(page);
  await page.selectOption("#b-recompute", "full");
  await settled(page);
  await page.waitForFunction(() => document.querySelector("#table td.better, #table td.worse"));
  assert.match(await page.textContent("#table"), /goodput[\d.]+ %100\.00 %/);
  const both = await open({}, await page.evaluate(() => location.hash));
  await both.waitForFunction(() => tracecast.sides.b?.answer);
  assert.equal(await both.inputValue("#b-failures"), "none");
  assert.deepEqual(page.complaints, []);

  const link = await page.evaluate(() => location.hash);
  await looksOf("serve", async options => {
    const shown = await open(options, link);
    await shown.waitForFunction(() => tracecast.sides.b?.answer);
    return shown;
  });
}
