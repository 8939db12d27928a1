// Times the answers of `tracecast serve` while sliders of a run on 16,384 GPUs are dragged: median and 95th percentile, as the
// page sees them.
//   node serve_latency.mjs TRACECAST
import { spawn } from "node:child_process";
import { inBrowser, newPage, tracecast } from "./browser.mjs";

const SLIDERS = ["batch", "seq", "gpus", "slow", "rails", "mtbf", "checkpoint"], MOVES = 24;

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
    const slider = page.locator(`#a-${id}`), box = await slider.boundingBox();
    await page.evaluate(() => { tracecast.sides.a.latencies.length = 0; });
    await page.mouse.move(box.x + box.width * 0.2, box.y + box.height / 2);
    await page.mouse.down();
    for (let i = 0; i < MOVES; ++i) { await page.mouse.move(box.x + box.width * (0.2 + 0.6 * i / MOVES), box.y + box.height / 2); await page.waitForTimeout(60); }
    await page.mouse.up();
    await settled();
    const times = await page.evaluate(() => tracecast.sides.a.latencies);
    all.push(...times);
    console.log(`${id}: ${times.length} answers, slowest ${Math.max(...times).toFixed(0)} ms`);
    await page.click("#a-reset");
    await settled();
  }
  all.sort((x, y) => x - y);
  const at = share => all[Math.min(all.length - 1, Math.floor(share * all.length))].toFixed(0);
  console.log(`${all.length} answers while dragging: median ${at(0.5)} ms, 95 % within ${at(0.95)} ms, slowest ${at(1)} ms`);
  server.kill();
});
