// What a reader does with a report: pick a round, leave rounds out, change the margin, widen frames, save the
// recording.
// Everything that is shown at first is already in the page. Text goes in as text, never as markup.
"use strict";
(() => {
  const byId = (id) => document.getElementById(id);

  // Saving the recording -----------------------------------------------------------------------------

  const recording = byId("recording");

  async function unpacked() {
    const bytes = Uint8Array.from(atob(recording.textContent.trim()), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  }

  const save = byId("save");
  if (save && recording && typeof DecompressionStream === "function") {
    save.hidden = false;
    save.addEventListener("click", async () => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([await unpacked()], { type: "application/json" }));
      link.download = recording.dataset.name;
      link.click();
      URL.revokeObjectURL(link.href);
    });
  }

  // Picking a round ----------------------------------------------------------------------------------

  const pick = byId("round-pick");
  if (pick) {
    const all = byId("rounds-over-time");
    pick.disabled = false;
    pick.addEventListener("change", () => {
      all.classList.toggle("single", pick.value !== "");
      for (const figure of all.children) {
        figure.hidden = pick.value !== "" && figure.dataset.round !== pick.value;
      }
    });
  }

  const fixed = (value, digits) => value.toFixed(digits);

  // Flame graphs -------------------------------------------------------------------------------------
  // A frame is picked with the arrows or a click, and made as wide as the picture with Enter or that click.

  const SLACK = 2e-5; // Places have three decimals of a percent.

  function frameOf(element) {
    const share = (name) => parseFloat(element.getAttribute(name)) / 100;
    const title = element.querySelector("title").textContent;
    return {
      element,
      title,
      name: title.slice(0, Math.max(title.indexOf(": "), 0)),
      left: share("x"),
      width: share("width"),
      row: Number(element.getAttribute("y")),
      text: element.querySelector("text")?.textContent ?? "",
    };
  }

  function write(frame, text) {
    let label = frame.element.querySelector("text");
    if (!label && text) {
      label = document.createElementNS("http://www.w3.org/2000/svg", "text");
      label.setAttribute("x", "3");
      label.setAttribute("y", "12");
      frame.element.append(label);
    }
    if (label) label.textContent = text;
  }

  function zoomable(graph) {
    const region = graph.parentElement;
    const told = region.nextElementSibling;
    const frames = [...graph.children].map(frameOf);
    const [root] = frames;
    if (!root) return;
    let current = root;
    let widest = root;

    function pick(frame) {
      if (!frame) return;
      current.element.classList.remove("flame-current");
      current = frame;
      current.element.classList.add("flame-current");
      current.element.scrollIntoView({ block: "nearest" });
      told.textContent = frame.title;
    }

    function widen(frame) {
      widest = frame;
      for (const other of frames) {
        const left = Math.max((other.left - frame.left) / frame.width, 0);
        const right = Math.min((other.left + other.width - frame.left) / frame.width, 1);
        const width = right - left;
        other.element.toggleAttribute("hidden", width < SLACK);
        other.element.setAttribute("x", `${fixed(left * 100, 3)}%`);
        other.element.setAttribute("width", `${fixed(Math.max(width, 0) * 100, 3)}%`);
        write(other, frame === root ? other.text : width > 0.02 ? other.name : "");
      }
    }

    const shown = () => frames.filter((frame) => !frame.element.hasAttribute("hidden"));
    const beside = (way) => {
      const row = shown().filter((frame) => frame.row === current.row);
      return row[row.indexOf(current) + way];
    };
    const around = (inner, outer) =>
      inner.left >= outer.left - SLACK && inner.left + inner.width <= outer.left + outer.width + SLACK;
    const height = root.element.height.baseVal.value;
    const caller = () =>
      frames.find((frame) => frame.row === current.row + height && around(current, frame));
    const callee = () => {
      const inside = shown().filter((frame) => frame.row === current.row - height && around(frame, current));
      return inside.sort((a, b) => b.width - a.width)[0];
    };
    const keys = {
      ArrowUp: () => pick(callee()),
      ArrowDown: () => pick(caller()),
      ArrowLeft: () => pick(beside(-1)),
      ArrowRight: () => pick(beside(1)),
      Home: () => pick(root),
      Enter: () => widen(current),
      Escape: () => widen(root),
    };
    region.addEventListener("keydown", (event) => {
      const act = keys[event.key];
      if (!act || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      act();
    });
    graph.addEventListener("click", (event) => {
      const frame = frames.find((one) => one.element.contains(event.target));
      if (!frame) return;
      pick(frame);
      widen(frame === widest ? root : frame);
    });
    told.hidden = false;
    told.textContent =
      "Arrow keys pick a frame and Enter widens it, as a click does; Escape shows everything again.";
  }

  document.querySelectorAll(".flame").forEach(zoomable);

  // Computing the verdict again ----------------------------------------------------------------------
  // The arithmetic is that of the program: paired log ratios with Student's t, whose values the page brings.

  function ratioText(value) {
    const size = Math.abs(value);
    if (size >= 1000) return value.toExponential(2).replace("e+", "e");
    return fixed(value, size >= 100 ? 0 : size >= 10 ? 1 : 3);
  }

  function percentText(share) {
    const value = share * 100;
    const size = Math.abs(value);
    if (size >= 10) return `${fixed(value, 0)}%`;
    if (size >= 1) return `${fixed(value, 1).replace(/\.0$/, "")}%`;
    if (size >= 0.01) return `${fixed(value, 2)}%`;
    return size === 0 ? "0%" : `${fixed(value, 4)}%`;
  }

  const intervalText = (bounds) =>
    bounds ? `[${ratioText(bounds[0])}, ${ratioText(bounds[1])}]` : "-";

  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

  /** Ratio of the geometric means and its interval, from the pairs that are left. */
  function pairedRatio(pairs, t) {
    const n = pairs.length;
    if (n === 0) return null;
    const differences = pairs.map((pair) => Math.log(pair.a) - Math.log(pair.b));
    const center = mean(differences);
    let interval = null;
    if (n > 1) {
      const squares = differences.reduce((sum, d) => sum + (d - center) ** 2, 0);
      const half = (t[n - 2] * Math.sqrt(squares / (n - 1))) / Math.sqrt(n);
      const bounds = [Math.exp(center - half), Math.exp(center + half)];
      interval = bounds.every(Number.isFinite) ? bounds : null;
    }
    return { ratio: Math.exp(center), interval, pairs: n };
  }

  /** Where an interval lies against the margin. */
  function wordOf(interval, margin) {
    if (!interval) return "inconclusive";
    const [low, high] = interval;
    const [bottom, top] = [1 / (1 + margin), 1 + margin];
    if (low > top || high < bottom) return "faster";
    if (low > bottom && high < top) return "equivalent";
    return low > 1 || high < 1 ? "immaterial" : "inconclusive";
  }

  const inverted = (found) => ({
    ratio: 1 / found.ratio,
    interval: found.interval && [1 / found.interval[1], 1 / found.interval[0]],
  });

  const pairsText = (n) => (n === 1 ? "1 pair" : `${n} pairs`);

  /** One arm against the first: the word, and a sentence with its numbers. */
  function judge(arm, margin, level, compute) {
    const judged = arm.metrics.find((metric) => metric.metric === arm.judged);
    const found = judged && compute(judged.pairs);
    if (!found) return { word: "inconclusive", text: `${arm.a} against ${arm.b}: inconclusive, no pair of rounds is left` };
    const byCpu = arm.judged === "server_cpu_ns_per_request";
    const word = wordOf(found.interval, margin);
    const aLeads = found.ratio >= 1 !== byCpu;
    const [leader, other] = aLeads ? [arm.a, arm.b] : [arm.b, arm.a];
    const evidence = (bounds) => `${intervalText(bounds)} ${percentText(level)} CI, ${pairsText(found.pairs)}`;
    const quotient = `${byCpu ? "CPU per request " : ""}${arm.a}/${arm.b} ${ratioText(found.ratio)}`;
    const direct = found.ratio >= 1;
    const told = direct ? found : inverted(found);
    const inverse = direct ? "" : `  (${arm.a}/${arm.b} ${ratioText(found.ratio)})`;
    const lead = byCpu
      ? `client-limited, so by CPU per request: ${other} needs ${ratioText(told.ratio)} times as much as ${leader}`
      : `${leader} ${ratioText(told.ratio)} times as fast as ${other}`;
    let text;
    if (word === "faster") text = `${lead}  ${evidence(told.interval)}${inverse}`;
    else if (word === "immaterial") {
      text = `${lead}, established but not beyond the margin of ${percentText(margin)}  ${evidence(told.interval)}${inverse}`;
    } else if (word === "equivalent") {
      text = `${arm.a} and ${arm.b} equivalent within ${percentText(margin)}: ${quotient}  ${evidence(found.interval)}`;
    } else {
      const told = found.pairs < 3 ? `too few pairs for an interval (${pairsText(found.pairs)})` : evidence(found.interval);
      text = `${arm.a} against ${arm.b}: inconclusive: ${quotient}  ${told}`;
    }
    return word === "faster" ? contradicted(arm, leader, text, margin, compute) : { word, text };
  }

  /** A verdict of which another established result says the opposite has no single winner. */
  function contradicted(arm, winner, text, margin, compute) {
    const against = [];
    for (const metric of arm.metrics) {
      const found = metric.opposes && metric.metric !== arm.judged ? compute(metric.pairs) : null;
      if (!found || wordOf(found.interval, margin) !== "faster") continue;
      if ((found.ratio < 1 ? arm.a : arm.b) === winner) continue;
      const direct = found.ratio >= 1;
      const told = direct ? found : inverted(found);
      const [more, less] = direct ? [arm.a, arm.b] : [arm.b, arm.a];
      const at = metric.rate_rps === null ? "" : ` at ${Math.round(metric.rate_rps).toLocaleString("en-US")} req/s each`;
      against.push(`${more} has ${ratioText(told.ratio)} times the ${metric.name} of ${less}${at} ${intervalText(told.interval)}`);
    }
    if (against.length === 0) return { word: "faster", text };
    return { word: "mixed", text: `mixed: ${text}; but ${against.join(", ")}` };
  }

  const CAUTION = ["equivalent", "immaterial", "faster", "mixed", "inconclusive", "not_comparable"];

  /** The whole verdict without some rounds. */
  function verdictOf(data, excluded, asked, level) {
    const t = data.t[String(level)];
    const left = (pairs) => pairs.filter((pair) => !pair.rounds.some((round) => excluded.has(round)));
    const compute = (pairs) => pairedRatio(left(pairs), t);
    const control = pairedRatio(left(data.aa), data.t["0.99"]);
    const halfWidth = control && control.interval ? Math.sqrt(control.interval[1] / control.interval[0]) - 1 : 0;
    const margin = Math.max(asked, halfWidth);
    const arms = data.arms.map((arm) => judge(arm, margin, level, compute));
    const rows = data.arms.flatMap((arm) =>
      arm.metrics.map((metric) => ({
        title: metric.rate_rps === null ? metric.name : `${metric.name} at ${Math.round(metric.rate_rps)} req/s`,
        quotient: `${arm.a}/${arm.b}`,
        metric: metric.metric,
        found: compute(metric.pairs),
      })),
    );
    const words = arms.map((arm) => arm.word);
    const word = data.refused !== null ? "not_comparable" : words.reduce((a, b) => (CAUTION.indexOf(b) > CAUTION.indexOf(a) ? b : a));
    const text = data.refused ?? arms.map((arm) => arm.text).join("; ");
    return { word, text, margin, rows };
  }

  const controls = byId("controls");
  const source = byId("controls-data");
  if (!controls || !source) return;
  const data = JSON.parse(source.textContent);
  const boxes = [...document.querySelectorAll("#rounds-table input[type=checkbox]")];
  const counted = new Set(data.arms.flatMap((arm) => arm.metrics).flatMap((metric) => metric.pairs)
    .concat(data.aa).flatMap((pair) => pair.rounds));

  function element(name, text) {
    const made = document.createElement(name);
    made.textContent = text;
    return made;
  }

  function tableOf(rows, level) {
    const table = document.createElement("table");
    table.append(element("caption", "Ratios, computed again"));
    const head = document.createElement("tr");
    const body = document.createElement("tbody");
    for (const title of ["metric", "of", "ratio", `${percentText(level)} CI`, "pairs"]) {
      const cell = element("th", title);
      cell.scope = "col";
      head.append(cell);
    }
    table.append(head, body);
    for (const row of rows) {
      const line = document.createElement("tr");
      const name = element("th", row.title);
      name.scope = "row";
      const found = row.found;
      line.dataset.metric = row.metric;
      line.dataset.figures = JSON.stringify(found);
      line.append(name, element("td", row.quotient), element("td", found ? ratioText(found.ratio) : "-"),
        element("td", found ? intervalText(found.interval) : "-"), element("td", found ? String(found.pairs) : "0"));
      body.append(line);
    }
    return table;
  }

  function show() {
    const excluded = new Set(boxes.filter((box) => !box.checked).map((box) => Number(box.value)));
    const asked = Number(byId("margin").value) / 100;
    const level = Number(byId("level").value);
    const changed = boxes.some((box) => box.checked !== box.defaultChecked) ||
      byId("margin").value !== byId("margin").defaultValue ||
      ![...byId("level").options].every((option) => option.selected === option.defaultSelected);
    const valid = byId("margin").value !== "" && byId("margin").validity.valid;
    const result = byId("recomputed");
    const table = byId("recomputed-table");
    result.hidden = table.hidden = !changed;
    for (const point of document.querySelectorAll(".point[data-round]")) {
      const rounds = [point.dataset.round, point.dataset.otherRound].filter(Boolean).map(Number);
      point.classList.toggle("left-out", rounds.some((round) => excluded.has(round)));
    }
    for (const box of boxes) box.closest("tr").classList.toggle("left-out", !box.checked);
    if (!changed) return;
    if (!valid) {
      delete result.dataset.word;
      byId("recomputed-text").textContent = "The margin is no number from 0 to 100.";
      table.replaceChildren();
      return;
    }
    const verdict = verdictOf(data, excluded, asked, level);
    result.dataset.word = verdict.word;
    byId("recomputed-text").textContent = `${verdict.text}  margin ${percentText(verdict.margin)}`;
    table.replaceChildren(tableOf(verdict.rows, level));
  }

  controls.hidden = false;
  for (const box of boxes) {
    // A round that failed has no figure, and one that no ratio uses would change nothing.
    box.disabled = !counted.has(Number(box.value));
    box.addEventListener("change", show);
  }
  controls.addEventListener("input", show);
  controls.addEventListener("submit", (event) => event.preventDefault());
  controls.addEventListener("reset", () => {
    for (const box of boxes) box.checked = box.defaultChecked;
    // The fields are reset after this event.
    setTimeout(show);
  });
})();
