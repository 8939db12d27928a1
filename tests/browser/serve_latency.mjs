// Times the answers of `tracecast serve` while sliders of a run on 16,384 GPUs are dragged, as a user sees them: from the request
// until the answer is drawn, and from the oldest move that it answers, which may have waited for the answer before it.
// Other programs on the machine make it slower: run it on a quiet one.
//   node serve_latency.mjs TRACECAST
import { spawn } from "node:child_process";
import { loadavg } from "node:os";
import { inBrowser, newPage, tracecast } from "./browser.mjs";

// The slider of GPUs comes last: it leaves the 16,384, and on few of them a pipeline has 2,048 micro-batches.
const SLIDERS = ["batch", "seq", "slow", "rails", "uplinks", "mtbf", "checkpoint", "spares", "gpus"], MOVES = 30, MS_PER_MOVE = 50;
const share = (list, part) => [...list].sort((x, y) => x - y)[Math.min(list.length - 1, Math.ceil(part * list.length) - 1)].toFixed(0).padStart(4);
const line = (name, list) => console.log(`${name.padEnd(12)}${String(list.length).padStart(4)} answers: median ${share(list.map(l => l.asked), 0.5)} ms, 95 % within ${share(list.map(l => l.asked), 0.95)} ms; since the move ${share(list.map(l => l.changed), 0.5)} and ${share(list.map(l => l.changed), 0.95)} ms`);

await inBrowser(async browser => {
  const server = spawn(tracecast, ["serve", "--port", "0"], { stdio: ["ignore", "pipe", "inherit"] });
  process.on("exit", () => server.kill());
  const address = await new Promise(done => server.stdout.on("data", d => { const m = /http:\S+/.exec(d); if (m) done(m[0]); }));
  const page = await newPage(browser, { offline: false, allowed: address });
  await page.goto(address);
  const settled = () => page.waitForFunction(() => window.tracecast?.sides.a && !tracecast.sides.a.busy && (tracecast.sides.a.rested || tracecast.sides.a.failed));
  await settled();
  const all = [];
  for (const id of SLIDERS) {
    const slider = page.locator(`#a-${id}`);
    await slider.scrollIntoViewIfNeeded();
    const box = await slider.boundingBox();
    const to = share => page.mouse.move(box.x + 8 + (box.width - 16) * share, box.y + box.height / 2);
    await to(0.05);
    await page.mouse.down();
    await page.evaluate(() => { tracecast.sides.a.latencies.length = 0; });
    for (let i = 0; i < MOVES; ++i) { await to(0.05 + 0.9 * i / (MOVES - 1)); await page.waitForTimeout(MS_PER_MOVE); }
    const times = await page.evaluate(() => tracecast.sides.a.latencies.slice());
    await page.mouse.up();
    await settled();
    if (id !== "gpus") all.push(...times);
    line(id, times);
    await page.click("#a-reset");
    await settled();
  }
  line("at 16,384", all);
  console.log(`load of the machine ${loadavg()[0].toFixed(1)}`);
  server.kill();
});
