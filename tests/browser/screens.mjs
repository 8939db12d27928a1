// Pictures of the pages for the documentation, in Chromium.
//   node screens.mjs TRACECAST FOLDER    writes report.png, timeline.png and serve.png there
import { execFileSync, spawn } from "node:child_process";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { inBrowser, newPage, pictures, tracecast } from "./browser.mjs";

await inBrowser(async (browser, folder) => {
  const file = join(folder, "forecast.html");
  execFileSync(tracecast, ["predict", "llama3-405b-16k", "--html", file], { stdio: ["ignore", "pipe", "inherit"] });
  const report = await newPage(browser, { width: 1100, height: 640 });
  await report.goto(pathToFileURL(file).href);
  await report.waitForFunction(() => window.tracecast);
  await report.screenshot({ path: join(pictures, "report.png") });
  await report.focus("#timeline");
  for (let i = 0; i < 5; ++i) await report.keyboard.press("+");
  for (let i = 0; i < 3; ++i) await report.keyboard.press("ArrowRight");
  await report.locator("section", { has: report.locator("#timeline") }).screenshot({ path: join(pictures, "timeline.png") });

  const server = spawn(tracecast, ["serve", "--port", "0"], { stdio: ["ignore", "pipe", "inherit"] });
  process.on("exit", () => server.kill());
  const address = await new Promise(done => server.stdout.on("data", d => { const m = /http:\S+/.exec(d); if (m) done(m[0]); }));
  const page = await newPage(browser, { width: 1280, height: 1040, offline: false, allowed: address });
  await page.goto(address);
  await page.waitForFunction(() => window.tracecast?.sides.a?.timeline);
  await page.screenshot({ path: join(pictures, "serve.png") });
  server.kill();
});
