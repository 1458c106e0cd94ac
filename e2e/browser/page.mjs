// The page of `ipgc audit -o html` in a real browser: node page.mjs IPGC CHROMIUM FOLDER
//
// It fails with a line for each thing that is not as it should be. Pictures of the pages go to FOLDER.
import axe from "axe-core";
import { chromium } from "playwright-core";
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, openSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { COMMAND, dump } from "./dump.mjs";

const [ipgc, program, root] = process.argv.slice(2).map((it) => resolve(it));
const wrong = [];
const check = (fits, what) => fits || wrong.push(what);

const browser = await chromium.launch({ executablePath: program, args: ["--no-sandbox"] });

// All that is checked of one cluster.
const cluster = async (folder, list) => {
  mkdirSync(folder, { recursive: true });
  const [input, file] = [`${folder}/it's ${COMMAND}.json`, `${folder}/page.html`];
  writeFileSync(input, JSON.stringify(list));
  const audit = (form, to) => {
    const args = ["audit", "--exit-zero", "-f", input, "-o", form];
    execFileSync(ipgc, args, { stdio: ["ignore", openSync(to, "w"), "inherit"] });
  };
  audit("html", file);
  audit("json", `${folder}/report.json`);
  const report = JSON.parse(readFileSync(`${folder}/report.json`, "utf8"));
  const size = statSync(file).size;
  check(size <= 20_000_000, `the page has ${size} bytes`);
  // Of several openings the quickest counts: at the others the machine may be busy with something else.
  const times = [];
  const open = async (options) => {
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
    const page = await context.newPage();
    page.setDefaultTimeout(10_000);
    page.on("console", (message) => wrong.push(`the console says: ${message.text()}`));
    page.on("pageerror", (error) => wrong.push(`the script fails: ${error.message}`));
    page.on("dialog", (dialog) => wrong.push(`a dialog opens: ${dialog.message()}`) && dialog.dismiss());
    page.on("request", (request) => check(request.url().startsWith("file:"), `a request leaves: ${request.url()}`));
    const begun = Date.now();
    await page.goto(pathToFileURL(file).href);
    times.push(Date.now() - begun);
    return page;
  };

  const page = await open({ colorScheme: "light" });

  // The numbers are those of the report.
  const { split, ...totals } = { ...report.totals, findings: report.findings.length };
  for (const [name, number] of Object.entries(totals)) {
    const shown = await page.locator(`[data-total=${name}]`).textContent();
    check(shown === String(number), `${name} is ${shown} and not ${number}`);
  }
  const pools = page.locator(".pool");
  check((await pools.count()) === report.pools.length, "each pool is there once");
  const bars = await page.locator(".pool > summary > span:last-child").allTextContents();
  report.pools.forEach((pool, at) => {
    const taken = `${pool.size - pool.free} of ${pool.size} taken`;
    check(bars[at] === taken, `${pool.name}: ${bars[at]} and not ${taken}`);
  });
  const problems = await page.locator(".problem > summary").allTextContents();
  for (const problem of new Set(report.findings.map((it) => it.problem))) {
    const count = report.findings.filter((it) => it.problem === problem).length;
    check(problems.includes(`${problem}: ${count}`), `${problem}: ${count} is not in ${problems}`);
  }

  // A grid has the rows of its pool, and tells of each.
  const told = page.locator("#told");
  // Of the fullest one that has live rows.
  const at = report.pools.findIndex((it) => it.live > 0);
  const [first, of] = [pools.nth(at), report.pools[at]];
  await first.locator("summary").click();
  await first.locator(".cells button").first().waitFor();
  const words = { live: ["live"], held: ["unreported", "unfenced"], stale: ["stale"], unknown: ["unknown"] };
  // In a range that is larger than the grid a cell stands for several.
  if (of.size <= 4096) {
    for (const [word, fields] of Object.entries(words)) {
      const shown = await first.locator(`.cells button.${word}`).count();
      const rows = fields.reduce((all, field) => all + of[field], 0);
      check(shown === rows, `${shown} cells are ${word}, and ${rows} rows`);
    }
  }
  const cell = first.locator(".cells button.live").first();
  await cell.hover();
  check((await told.textContent()).includes("its pod reports the address"), `a live address says: ${await told.textContent()}`);
  await cell.focus();
  const before = await told.textContent();
  await page.keyboard.press("ArrowRight");
  check((await told.textContent()) !== before, "the arrow keys choose another address");
  await page.keyboard.press("ArrowLeft");
  check((await told.textContent()) === before, "and the same again");
  await cell.click();
  check((await first.locator("button.found").count()) === 1, "a click keeps the address");

  // A pod is found by its name, an address by itself.
  const finding = report.findings.find((it) => it.address && it.row && it.pods?.length);
  for (const words of finding ? [finding.address, finding.pods[0]] : []) {
    await page.locator("#search").fill(words);
    const match = page.locator("#matches button", { hasText: finding.address }).first();
    await match.click();
    check((await told.textContent()).includes(words), `${words} is not in ${await told.textContent()}`);
  }
  // So is each address of a grid, and a reservation without a row by its owner.
  const found = async (words, name) => {
    await page.locator("#search").fill(words);
    await page.locator("#matches button", { hasText: name }).first().click();
    return told.locator("dt, dd").allTextContents();
  };
  const value = (all, name) => all[all.indexOf(name) + 1];
  const states = {
    "192.168.0.7": "free",
    "192.168.0.99": "excluded",
    "192.168.0.5": "reserved, unfenced",
    "10.0.0.17": of.size <= 4096 ? "excluded" : "no row",
  };
  for (const [address, state] of Object.entries(states)) {
    const all = await found(address, address);
    const shown = [value(all, "address"), value(all, "state"), value(all, "command").split(" -f ")[0]].join(", ");
    check(shown === `${address}, ${state}, ipgc explain ${address}`, `${address} is told as ${shown}`);
  }
  const lone = await found("team-0/lone", "192.168.0.5");
  check(value(lone, "pod") === "team-0/lone" && value(lone, "why").includes("its pod is gone"), `a reservation says: ${lone}`);
  check(value(lone, "since") === "2026-01-01T00:00:00Z" && lone.includes("what would change this"), `a reservation says: ${lone}`);
  check((await page.locator("button.reserved.found").count()) === 1, "its cell is chosen");

  // A shell takes foreign words of a command for names, and the command reads the same file.
  const expected = [["192.168.0.2", /^192\.168\.0\.2 /, "192.168.0.2 in pool "], [COMMAND, /^\$/, "pool kube-system/192.168.0.0-24"]];
  for (const [words, name, begin] of expected) {
    const command = value(await found(words, name), "command");
    const run = { cwd: folder, env: { PATH: `${root}:/usr/bin:/bin` }, encoding: "utf8" };
    const { stdout } = spawnSync("sh", ["-c", command], run);
    check(stdout.startsWith(begin), `${command} says ${stdout}`);
  }
  check(!existsSync(`${folder}/pwn`), "a command runs a foreign word");
  await page.locator("#search").fill("no such thing");
  check((await page.locator("#count").textContent()) === "0 addresses", "nothing is found of nothing");
  await page.locator("#search").fill("");

  // What anybody may write does nothing here: a name is a text.
  check((await page.locator("main script, main img, main iframe").count()) === 0, "a foreign element");

  await page.evaluate(() => scrollTo(0, 0));
  await page.screenshot({ path: `${folder}/light.png` });
  await first.locator(".cells").scrollIntoViewIfNeeded();
  await cell.hover();
  await page.screenshot({ path: `${folder}/grid.png` });
  await page.pdf({ path: `${folder}/printed.pdf` });

  const dark = await open({ colorScheme: "dark" });
  await dark.locator(".pool summary").first().click();
  await dark.locator(".pool .cells button").first().hover();
  await dark.screenshot({ path: `${folder}/dark.png` });

  // Contrast, roles, names and the rest of WCAG 2.2 AA that a program can find out. A thousand pools say no more of it.
  for (const shown of report.pools.length > 100 ? [] : [page, dark]) {
    await shown.evaluate(axe.source);
    const { violations, passes } = await shown.evaluate(
      (values) => globalThis.axe.run(document, { runOnly: { type: "tag", values } }),
      ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    );
    check(passes.some((it) => it.id === "color-contrast"), "contrast was not looked at");
    violations.forEach((it) => wrong.push(`${it.id}: ${it.help}: ${it.nodes.slice(0, 3).map((node) => node.html)}`));
  }

  const small = await open({ viewport: { width: 390, height: 844 } });
  const wide = await small.evaluate(() => document.documentElement.scrollWidth);
  check(wide <= 390, `a small screen has to be scrolled sideways: ${wide}`);
  await small.screenshot({ path: `${folder}/small.png` });

  // Without a script all but details is there.
  const plain = await open({ javaScriptEnabled: false });
  await plain.locator(".pool summary").first().click();
  check(await plain.locator(".pool .grid").first().isVisible(), "the grid as text");
  check(!(await plain.locator("#search").isVisible()), "no search that does nothing");
  await plain.screenshot({ path: `${folder}/plain.png` });
  const took = Math.min(...times);
  check(took <= 2_000, `it took ${took} ms to open`);
  console.log(`${report.pools.length} pools, ${report.totals.rows} rows: ${size} bytes, opened in ${took} ms`);
};

// Commands of a page find the program by its name.
mkdirSync(root, { recursive: true });
rmSync(`${root}/ipgc`, { force: true });
symlinkSync(ipgc, `${root}/ipgc`);
await cluster(`${root}/few`, dump(6, 8, 0.8));
await cluster(`${root}/large`, dump(1, 16, 0.5));
await cluster(`${root}/many`, dump(1000, 12, 0.05));
await browser.close();
wrong.forEach((it) => console.log(it));
console.log(`${wrong.length} things wrong`);
process.exit(wrong.length ? 1 : 0);
