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

const open_all = (page) => page.locator("details").evaluateAll((all) => all.forEach((it) => (it.open = true)));

// Contrast, roles, names and the rest of WCAG 2.2 AA that a program can find out, with all open. Of many rows and cells a few
// say the same: the others go.
const accessible = async (page, which) => {
  const cut = (selector) => page.locator(selector).evaluateAll((all) => all.forEach((it) => it.remove()));
  await cut(".pool:nth-of-type(n + 13), tr:nth-child(n + 20)");
  await open_all(page);
  await page.waitForFunction(() => !document.querySelector(".cells:empty"));
  await cut(".cells button:nth-child(n + 300)");
  await page.evaluate(axe.source);
  const { violations, passes } = await page.evaluate(
    (values) => globalThis.axe.run(document, { resultTypes: ["violations"], runOnly: { type: "tag", values } }),
    ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
  );
  check(passes.some((it) => it.id === "color-contrast"), `${which}: contrast was not looked at`);
  violations.forEach((it) => wrong.push(`${which}: ${it.id}: ${it.help}: ${it.nodes.slice(0, 3).map((node) => node.html)}`));
  // Nor may signs and edges be faint, of which axe says nothing.
  const faint = await page.evaluate(() => {
    const of = (selector, what) => getComputedStyle(document.querySelector(selector)).getPropertyValue(what);
    const light = (color) => {
      const parts = color.match(/rgb\(([\d, ]+)\)/)[1].split(",").map((it) => it / 255);
      const [red, green, blue] = parts.map((it) => (it <= 0.04045 ? it / 12.92 : ((it + 0.055) / 1.055) ** 2.4));
      return 0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05;
    };
    const back = of("body", "background-color");
    const full = ["live", "held", "stale", "unknown"].map((word) => [`.key .${word}`, "background-color"]);
    const edged = ["free", "reserved"].map((word) => [`.key .${word}`, "box-shadow"]);
    const all = [...full, ...edged, [".key .excluded", "color"], [".bar", "border-top-color"], ["#search", "border-top-color"]];
    const faint = all.filter(([selector, what]) => {
      const [one, other] = [light(of(selector, what)), light(back)];
      return Math.max(one, other) / Math.min(one, other) < 3;
    });
    // What is beside another state in a bar is behind a gap, and all but live and free has its letter.
    const joined = [...document.querySelectorAll(".bar i + i")].filter((it) => {
      const { borderLeftColor, borderLeftWidth } = getComputedStyle(it);
      return borderLeftColor !== back || parseFloat(borderLeftWidth) < 2;
    });
    const bare = [...document.querySelectorAll(".bar i:not(.live, .free)")].filter((it) => !it.textContent || it.clientWidth < 10);
    return [...faint.map(([selector]) => selector), ...[...joined, ...bare].map((it) => it.outerHTML)];
  });
  check(!faint.length, `${which}: hard to see: ${faint.slice(0, 5)}`);
};

const browser = await chromium.launch({ executablePath: program, args: ["--no-sandbox"] });

// All that is checked of one cluster; of one that is not opened, the size of its page alone.
const cluster = async (folder, list, opens = true) => {
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
  if (!opens) return;
  // Of several openings, and of a grid in each, the quickest counts: at the others the machine may be busy with something
  // else.
  const [times, grids] = [[], []];
  // The fullest pool that has live rows.
  const at = report.pools.findIndex((it) => it.live > 0);
  const of = report.pools[at];
  const is_few = report.pools.length <= 50;
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
    const pool = page.locator(`#pool-${at}`);
    if (options.javaScriptEnabled === false) return [page, pool];
    times.push(Date.now() - begun);
    await pool.locator("summary").click();
    await pool.locator(".cells button").last().waitFor();
    grids.push(Date.now() - begun - times.at(-1));
    return [page, pool];
  };

  const [page, first] = await open({ colorScheme: "light" });

  // The numbers are those of the report.
  const { split, ...totals } = { ...report.totals, findings: report.findings.length };
  for (const [name, number] of Object.entries(totals)) {
    const shown = await page.locator(`[data-total=${name}]`).textContent();
    check(shown === String(number), `${name} is ${shown} and not ${number}`);
  }
  check((await page.locator(".pool").count()) === report.pools.length, "each pool is there once");
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
  // A reader of screens hears what is chosen, and not what the mouse passes.
  const said = page.getByRole("status").filter({ hasText: "its pod reports the address" });
  check((await said.count()) === 1, "a click is announced");
  await first.locator(".cells button.held").first().hover();
  check(!(await told.textContent()).includes("its pod reports the address"), "the mouse shows another address");
  check((await said.count()) === 1, "and it is not announced");

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
    "fd00:1::9": "free",
  };
  for (const [address, state] of Object.entries(states)) {
    const all = await found(address, address);
    const shown = [value(all, "address"), value(all, "state"), value(all, "command")?.split(" -f ")[0]].join(", ");
    check(shown === `${address}, ${state}, ipgc explain ${address}`, `${address} is told as ${shown}`);
  }
  const long = await found("FD00:0001:0:0:0:0:0:0005", "fd00:1::5");
  check(value(long, "pod") === "team-0/six" && value(long, "state") === "live", `a long address says: ${long}`);
  const owners = { "default/pod-whereabouts": "11111111-2222-4333-8444-555555555555", "team-0/vm-0": "IPAMClaim team-0/vm" };
  for (const [owner, why] of Object.entries(owners)) {
    // A claim is found as its pod is, by the name that the reason tells.
    for (const words of [owner, why]) {
      const all = await found(words, "fd00:1::");
      check(value(all, "why").includes(why), `${words} is told as ${all}`);
    }
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

  const [dark, first_dark] = await open({ colorScheme: "dark" });
  const dark_cell = first_dark.locator(".cells button.live").first();
  await dark_cell.hover();
  check((await dark.locator("#told").textContent()).includes("its pod reports the address"), "in the dark the mouse shows nothing");
  const outline = await dark_cell.evaluate((it) => getComputedStyle(it).outline);
  check(outline === "rgb(255, 255, 255) solid 2px", `in the dark an address has the outline ${outline}`);
  await dark.screenshot({ path: `${folder}/dark.png` });

  // A small screen has room for the page beside what is told, which goes by a key and by a finger.
  const [small, first_small] = await open({ viewport: { width: 390, height: 844 }, hasTouch: true });
  const wide = await small.evaluate(() => document.documentElement.scrollWidth);
  check(wide <= 390, `a small screen has to be scrolled sideways: ${wide}`);
  await small.evaluate(() => scrollTo(0, 0));
  await small.screenshot({ path: `${folder}/small.png` });
  const panel = small.locator("#told");
  const held = first_small.locator(".cells button.held").first();
  for (const close of [() => small.locator("#close").tap(), () => small.keyboard.press("Escape")]) {
    await held.tap();
    const { height } = await panel.boundingBox();
    check(height > 100 && height <= 0.4 * 844, `what is told is ${height} high`);
    await small.screenshot({ path: `${folder}/small-grid.png` });
    await close();
    check(!(await panel.isVisible()), "what is told does not close");
    check(await held.evaluate((it) => it === document.activeElement), "the focus is lost");
  }
  await held.tap();
  for (const [which, shown] of Object.entries(is_few ? { light: page, dark, small } : { small })) await accessible(shown, which);

  // Without a script all but details is there.
  const [plain, first_plain] = await open({ javaScriptEnabled: false });
  check(!(await plain.locator("#search").isVisible()), "no search that does nothing");
  const seen = (selector) => plain.locator(selector).evaluateAll((all) => all.filter((it) => it.checkVisibility()).length);
  const sheets = async (path) => (await plain.pdf({ path })).toString("latin1").match(/\/Type \/Page\b/g).length;
  check((await seen(".grid, td, .printed")) === 0, "closed is closed");
  // On paper it is all there, or a line says that it is not.
  const closed = await sheets(`${folder}/printed.pdf`);
  await plain.emulateMedia({ media: "print" });
  const printed = [await seen(".grid"), await seen(".printed")];
  check(String(printed) === String(is_few ? [report.pools.length, 0] : [0, 1]), `grids and lines that are printed: ${printed}`);
  check((await seen("tr")) === (await plain.locator("tr").count()), "all findings are printed");
  await plain.emulateMedia({ media: null });
  await first_plain.locator("summary").click();
  check(await first_plain.locator(".grid").isVisible(), "the grid as text");
  await plain.screenshot({ path: `${folder}/plain.png` });
  if (is_few) await open_all(plain);
  const opened = await sheets(`${folder}/opened.pdf`);
  check(is_few ? closed === opened : closed <= opened, `${closed} sheets of paper, and ${opened} of what is open`);
  const slowest = () => Math.max(Math.min(...times), Math.min(...grids));
  for (let more = 0; more < 5 && slowest() > 2_000; more++) await open({});
  const took = `opened in ${Math.min(...times)} ms, a grid in ${Math.min(...grids)} ms`;
  check(slowest() <= 2_000, took);
  console.log(`${report.pools.length} pools, ${report.totals.rows} rows: ${size} bytes, ${took}`);
  for (const context of browser.contexts()) await context.close();
};

// Commands of a page find the program by its name.
mkdirSync(root, { recursive: true });
rmSync(`${root}/ipgc`, { force: true });
symlinkSync(ipgc, `${root}/ipgc`);
await cluster(`${root}/few`, dump(6, 8, 0.8));
await cluster(`${root}/large`, dump(1, 16, 0.5));
await cluster(`${root}/many`, dump(1000, 8, 1));
await cluster(`${root}/wide`, dump(1000, 12, 0.05), false);
await browser.close();
wrong.forEach((it) => console.log(it));
console.log(`${wrong.length} things wrong`);
process.exit(wrong.length ? 1 : 0);
