// What the page does with a script: grids of cells, what is known of one, search. All foreign text is set as text.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const [told, facts] = [byId("told"), byId("facts")];
  // The cells that were chosen, and that had the focus, last.
  let kept, focused;
  // Only what is chosen is announced: what the mouse passes is not.
  const announce = () => (byId("said").textContent = Array.from(facts.querySelectorAll("dt, dd"), (it) => it.textContent).join(", "));
  const close = () => {
    if (told.contains(document.activeElement)) focused?.focus({ preventScroll: true });
    told.hidden = true;
  };
  byId("close").addEventListener("click", close);
  addEventListener("keydown", (event) => event.key === "Escape" && close());
  const text = (at) => (typeof at === "string" ? at : (data.texts[at] ?? ""));
  const make = (tag, content, parent) => {
    const element = document.createElement(tag);
    if (content) element.textContent = content;
    if (parent) parent.append(element);
    return element;
  };
  document.body.classList.add("script");

  // Addresses are counted as numbers of any size.
  const parse = (address) => {
    if (!address.includes(":")) return address.split(".").reduce((all, part) => all * 256n + BigInt(part), 0n);
    const [head, tail] = address.split("::").map((half) => (half ? half.split(":") : []));
    const rest = tail === undefined ? [] : tail;
    const parts = [...head, ...Array(8 - head.length - rest.length).fill("0"), ...rest];
    return parts.reduce((all, part) => all * 65536n + BigInt("0x" + part), 0n);
  };
  const show = (number, like) => {
    if (!like.includes(":")) return [24n, 16n, 8n, 0n].map((bits) => (number >> bits) & 255n).join(".");
    const parts = Array.from({ length: 8 }, (_, at) => ((number >> BigInt(112 - 16 * at)) & 65535n).toString(16));
    const text = parts.join(":");
    // The longest run of zeros is left out.
    const runs = [8, 7, 6, 5, 4, 3, 2].map((zeros) => new RegExp(`(^|:)0(:0){${zeros - 1}}(:|$)`));
    const run = runs.find((it) => it.test(text));
    return run ? text.replace(run, "::") : text;
  };

  // A row or a reservation without one: cell, address or key, owner, places in texts of node, since, state, why, what changes
  // it and sign, and 1 if it has an address.
  const tell = (pool, cell, row, sign) => {
    told.hidden = false;
    facts.replaceChildren();
    const list = make("dl", "", facts);
    const line = (name, value) => {
      if (!value) return;
      make("dt", name, list);
      make("dd", value, list);
    };
    // A row outside of its range has no cell.
    const first = cell === null ? null : show(parse(pool.first) + BigInt(cell) * BigInt(pool.each), pool.first);
    line("address", row ? row[1] : first);
    line("pool", pool.name);
    line("state", row ? text(row[5]) : sign);
    if (row) {
      line("pod", row[2]);
      line("node", text(row[3]));
      line("since", text(row[4]));
      line("why", text(row[6]));
      line("what would change this", text(row[7]));
    }
    const held = (pool.cells?.get(cell) ?? []).filter((it) => text(it[8]) !== "reserved").length;
    if (cell !== null && pool.each !== "1") line("cell", `stands for ${pool.each} addresses from ${first}, ${held} of them with a row`);
    // The key of a row without an address is whatever somebody wrote.
    const command = !row || row[9] ? `ipgc explain ${row ? row[1] : first}` : pool.command;
    line("command", command && data.from !== null && command + data.from);
  };

  // The signs of a pool's cells, from its grid as text: each line has an address before them.
  const signs_of = (at) => {
    const grid = byId(`pool-${at}`).querySelector(".grid");
    return (data.pools[at].signs ??= grid.textContent.replace(/^\S+ +|\n/gm, ""));
  };
  const grids = new Map();
  const grid = (at) => {
    if (grids.has(at)) return grids.get(at);
    const pool = data.pools[at];
    pool.cells = new Map();
    for (const row of pool.rows) {
      if (row[0] === null) continue;
      if (!pool.cells.has(row[0])) pool.cells.set(row[0], []);
      pool.cells.get(row[0]).push(row);
    }
    const box = byId(`pool-${at}`).querySelector(".cells");
    const buttons = [...signs_of(at)].map((sign, cell) => {
      const [word, letter] = data.signs[sign];
      const rows = pool.cells.get(cell) ?? [];
      // The worst one of a block is the one that its sign shows.
      const row = rows.find((row) => text(row[8]) === word) ?? rows[0];
      const button = make("button", "", box);
      button.className = word;
      button.type = "button";
      button.textContent = letter;
      button.tabIndex = cell === 0 ? 0 : -1;
      const name = row ? row[1] : show(parse(pool.first) + BigInt(cell) * BigInt(pool.each), pool.first);
      button.setAttribute("aria-label", [name, word, row && row[2]].filter(Boolean).join(", "));
      button.show = (chosen) => tell(pool, cell, chosen ?? row, word);
      return button;
    });
    const pinned = (button, row) => {
      kept?.classList.remove("found");
      kept?.removeAttribute("aria-current");
      kept = button;
      kept.row = row;
      button.classList.add("found");
      button.setAttribute("aria-current", "true");
      button.show(row);
      announce();
    };
    const at_of = (event) => buttons.indexOf(event.target);
    // Not `mouseover`: what scrolls below a mouse that rests is not asked for.
    box.addEventListener("mousemove", (event) => event.target.show?.());
    box.addEventListener("mouseleave", () => told.hidden || kept?.show(kept.row));
    box.addEventListener("focusin", (event) => {
      if (at_of(event) < 0) return;
      box.querySelector("[tabindex='0']").tabIndex = -1;
      focused = event.target;
      focused.tabIndex = 0;
      focused.show();
    });
    box.addEventListener("click", (event) => at_of(event) >= 0 && pinned(event.target));
    box.addEventListener("keydown", (event) => {
      if (event.altKey || event.ctrlKey || event.metaKey) return;
      const columns = getComputedStyle(box).gridTemplateColumns.split(" ").length;
      const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns };
      const next = buttons[at_of(event) + steps[event.key]];
      if (!next) return;
      event.preventDefault();
      next.focus();
    });
    grids.set(at, { buttons, pinned });
    return grids.get(at);
  };
  const pools = document.querySelectorAll(".pool");
  pools.forEach((pool, at) => {
    pool.addEventListener("toggle", () => pool.open && data.pools[at].first && grid(at));
  });

  const open = (at, row) => {
    const pool = byId(`pool-${at}`);
    pool.open = true;
    if (row[0] === null || !data.pools[at].first) {
      pool.querySelector("summary").focus();
      tell(data.pools[at], null, row, "");
      return announce();
    }
    const { buttons, pinned } = grid(at);
    const button = buttons[row[0]];
    button.focus();
    pinned(button, row);
  };
  // The words as an address in its short form, or nothing.
  const address_of = (words) => {
    try {
      const short = show(parse(words), words);
      return short === words || words.includes("::") || words.split(":").length === 8 ? short : "";
    } catch {
      return "";
    }
  };
  // An address as if it were a row, if it is one of the grid of a pool.
  const lone = (pool, at, address) => {
    if (!pool.first || !address || pool.first.includes(":") !== address.includes(":")) return [];
    const after = parse(address) - parse(pool.first);
    const cell = Number(after / BigInt(pool.each));
    const sign = after < 0n ? undefined : signs_of(at)[cell];
    if (!sign) return [];
    // The sign of several addresses is that of the worst.
    const state = pool.each === "1" ? data.signs[sign][0] : "no row";
    return [[cell, address, "", null, null, state, null, null, null, 1]];
  };
  const search = byId("search");
  const matches = byId("matches");
  search.addEventListener("input", () => {
    const words = search.value.trim().toLowerCase();
    matches.replaceChildren();
    byId("count").textContent = "";
    if (words.length < 2) return;
    const address = address_of(words);
    let count = 0;
    const has = (it) => it.toLowerCase().includes(words);
    const is_named = (row) => row[1] === address || [row[1], row[2], text(row[3])].some(has);
    // A claim is named in the reason alone, and reasons name much else.
    const is_any = data.pools.some((pool) => pool.rows.some(is_named));
    const fits = is_any ? is_named : (row) => has(text(row[6]));
    data.pools.forEach((pool, at) => {
      const found = pool.rows.filter(fits);
      const other = found.some((row) => row[1] === address) ? [] : lone(pool, at, address);
      for (const row of [...other, ...found]) {
        if (++count > 100) continue;
        const button = make("button", `${row[1]} ${text(row[5])} ${row[2]} ${text(row[3])}`, make("li", "", matches));
        button.type = "button";
        button.addEventListener("click", () => open(at, row));
      }
    });
    byId("count").textContent = count > 100 ? `${count} addresses, the first 100 of them` : `${count} addresses`;
  });
})();
