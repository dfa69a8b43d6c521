// The explorer of runs: two chosen quantities against each other; a run that is pointed at tells its story.
(function () {
  "use strict";
  if (!document.getElementById("explorer")) return;
  const data = JSON.parse(document.getElementById("runs").textContent);
  const svg = document.getElementById("explorer"), told = document.getElementById("told");
  const choose = { x: document.getElementById("x"), y: document.getElementById("y") };
  const NS = "http://www.w3.org/2000/svg";
  const LEFT = 70, RIGHT = 15, TOP = 15, BOTTOM = 45;
  const COLOURS = { initial: "#999999", ok: "var(--blue)", infeasible: "#E69F00", bad: "#D55E00" };

  function element(name, attributes, text) {
    const made = document.createElementNS(NS, name);
    for (const key in attributes) made.setAttribute(key, attributes[key]);
    if (text !== undefined) made.textContent = text;
    return made;
  }
  function show(value) {
    return value === null ? "none" : Math.abs(value) >= 1e5 || (value !== 0 && Math.abs(value) < 1e-3)
      ? Number(value.toPrecision(4)).toExponential().replace("e+", "e") : String(Number(value.toPrecision(4)));
  }
  function deepest(values) { // of log-likelihoods that are worth telling apart: a few lie far below all others
    const sorted = values.filter((v) => v !== null).sort((a, b) => b - a);
    if (!sorted.length) return 0;
    return sorted[0] - 4 * (sorted[0] - sorted[Math.floor(sorted.length / 2)]);
  }
  function column(i) {
    const values = data.runs.map((r) => r.values[i]);
    if (i !== data.parameters + 1) return values;
    const low = deepest(values);
    return values.map((v) => v === null ? low : Math.max(v, low)); // those that have none at the edge
  }
  function scale(values, from, to) {
    const known = values.filter((v) => v !== null);
    let low = Math.min(...known), high = Math.max(...known);
    if (!known.length) { low = 0; high = 1; }
    if (low === high) { low -= 0.5; high += 0.5; }
    const pad = 0.04 * (high - low);
    low -= pad; high += pad;
    const at = (v) => from + (to - from) * (v - low) / (high - low);
    const step = Math.pow(10, Math.floor(Math.log10((high - low) / 4)));
    const wide = [1, 2, 5, 10].map((k) => k * step).find((s) => (high - low) / s <= 6) || 10 * step;
    const ticks = [];
    for (let k = Math.ceil(low / wide); k * wide <= high; k++) ticks.push(k * wide);
    return { at, ticks };
  }
  function tell(run, dot) {
    svg.querySelectorAll(".chosen").forEach((d) => d.classList.remove("chosen"));
    dot.classList.add("chosen");
    const numbers = data.columns.map((c, i) => c + " = " + show(run.values[i])).join(", ");
    told.textContent = "Run " + run.id + ": " + run.status + ", chosen by " + run.origin + "; " + numbers +
      (run.message ? ". " + run.message : "");
  }
  function mark(run, x, y) {
    const colour = run.status === "ok" ? (run.origin === "initial" ? COLOURS.initial : COLOURS.ok)
      : run.status === "infeasible" ? COLOURS.infeasible : COLOURS.bad;
    const shape = run.status === "ok"
      ? element("circle", { cx: x, cy: y, r: 6 })
      : element("rect", { x: x - 5.5, y: y - 5.5, width: 11, height: 11, transform: "rotate(45 " + x + " " + y + ")" });
    shape.style.fill = colour;
    shape.setAttribute("class", "run");
    shape.setAttribute("tabindex", "-1"); // one of them is a stop of the Tab key, see below
    shape.setAttribute("role", "button");
    shape.setAttribute("aria-label", "run " + run.id);
    for (const event of ["mouseenter", "focus", "click"]) shape.addEventListener(event, () => tell(run, shape));
    return shape;
  }
  function draw() {
    const WIDTH = Math.max(svg.clientWidth, 280), HEIGHT = Math.min(420, 0.85 * WIDTH); // as many pixels as there are
    svg.setAttribute("viewBox", "0 0 " + WIDTH + " " + HEIGHT);
    const i = Number(choose.x.value), j = Number(choose.y.value);
    const draws = data.draws.filter(() => i > 0 && j > 0 && i <= data.parameters && j <= data.parameters);
    const across = column(i), up = column(j);
    const x = scale(across.concat(draws.map((d) => d[i - 1])), LEFT, WIDTH - RIGHT);
    const y = scale(up.concat(draws.map((d) => d[j - 1])), HEIGHT - BOTTOM, TOP);
    svg.replaceChildren();
    for (const tick of x.ticks) {
      svg.append(element("line", { x1: x.at(tick), x2: x.at(tick), y1: TOP, y2: HEIGHT - BOTTOM }));
      svg.append(element("text", { x: x.at(tick), y: HEIGHT - BOTTOM + 18, "text-anchor": "middle" }, show(tick)));
    }
    for (const tick of y.ticks) {
      svg.append(element("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y.at(tick), y2: y.at(tick) }));
      svg.append(element("text", { x: LEFT - 8, y: y.at(tick) + 4, "text-anchor": "end" }, show(tick)));
    }
    const middle = (LEFT + WIDTH - RIGHT) / 2;
    svg.append(element("text", { x: middle, y: HEIGHT - 6, "text-anchor": "middle" }, data.columns[i]));
    svg.append(element("text", { x: -(HEIGHT - BOTTOM) / 2, y: 14, "text-anchor": "middle", transform: "rotate(-90)" },
      data.columns[j]));
    for (const d of draws) {
      svg.append(element("circle", { cx: x.at(d[i - 1]), cy: y.at(d[j - 1]), r: 2, fill: "#56B4E9", opacity: 0.5 }));
    }
    data.runs.forEach((run, n) => {
      if (across[n] !== null && up[n] !== null) svg.append(mark(run, x.at(across[n]), y.at(up[n])));
    });
    const first = svg.querySelector(".run");
    if (first) first.setAttribute("tabindex", "0");
  }
  svg.addEventListener("keydown", (event) => { // from run to run
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const dots = [...svg.querySelectorAll(".run")], at = dots.indexOf(document.activeElement);
    if (!step || at < 0) return;
    event.preventDefault();
    dots[(at + step + dots.length) % dots.length].focus();
  });
  for (const key of ["x", "y"]) {
    data.columns.forEach((name, i) => choose[key].add(new Option(name, String(i))));
    choose[key].addEventListener("change", draw);
  }
  const remembered = (location.hash.match(/^#(\d+),(\d+)$/) || []).slice(1);
  choose.x.value = remembered[0] || String(data.start[0]);
  choose.y.value = remembered[1] || String(data.start[1]);
  const remember = () => history.replaceState(null, "", "#" + choose.x.value + "," + choose.y.value);
  choose.x.addEventListener("change", remember);
  choose.y.addEventListener("change", remember);
  window.addEventListener("resize", draw);
  draw();
})();

// Tables that are sorted by the column whose name is pressed; numbers by their size, what is missing at the end.
(function () {
  "use strict";
  function sort(table, column, down) {
    const body = table.tBodies[0], rows = [...body.rows];
    const text = (row) => row.cells[column].textContent;
    const numbers = rows.every((row) => text(row) === "" || isFinite(Number(text(row))));
    const key = (row) => numbers ? (text(row) === "" ? null : Number(text(row))) : text(row);
    rows.sort((a, b) => {
      const x = key(a), y = key(b);
      if (x === null || y === null) return (x === null) - (y === null);
      return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
    });
    body.append(...rows);
  }
  document.querySelectorAll("table.sortable").forEach((table) => {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, i) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        heads.forEach((h) => h.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        sort(table, i, down);
      });
    });
  });
})();

// Pictures as files: SVG as it is, in the colours of a light page; PNG at twice the size.
(function () {
  "use strict";
  function alone(svg) { // that needs nothing of the page
    const copy = svg.cloneNode(true), box = svg.viewBox.baseVal;
    copy.removeAttribute("style");
    copy.setAttribute("width", box.width);
    copy.setAttribute("height", box.height);
    copy.setAttribute("xmlns:xlink", "http://www.w3.org/1999/xlink");
    return new XMLSerializer().serializeToString(copy).replace(/var\(--\w+, (#\w+)\)/g, "$1");
  }
  function offer(address, name) {
    const link = document.createElement("a");
    link.href = address;
    link.download = name;
    link.click();
  }
  function encoded(svg) { return "data:image/svg+xml;charset=utf-8," + encodeURIComponent(alone(svg)); }
  function asPng(svg, name) {
    const image = new Image(), box = svg.viewBox.baseVal;
    image.onload = () => {
      const canvas = document.createElement("canvas");
      canvas.width = 2 * box.width;
      canvas.height = 2 * box.height;
      const pen = canvas.getContext("2d");
      pen.fillStyle = "#fff";
      pen.fillRect(0, 0, canvas.width, canvas.height);
      pen.drawImage(image, 0, 0, canvas.width, canvas.height);
      offer(canvas.toDataURL("image/png"), name);
    };
    image.src = encoded(svg);
  }
  document.querySelectorAll("figure").forEach((figure, i) => {
    const svg = figure.querySelector("svg"), name = "figure-" + (i + 1);
    const ways = { SVG: () => offer(encoded(svg), name + ".svg"), PNG: () => asPng(svg, name + ".png") };
    for (const kind in ways) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "save";
      button.textContent = kind;
      button.setAttribute("aria-label", "save as " + kind);
      button.addEventListener("click", ways[kind]);
      figure.querySelector("figcaption").append(button);
    }
  });
})();

// On paper everything is open.
(function () {
  "use strict";
  const closed = [];
  window.addEventListener("beforeprint", () => document.querySelectorAll("details:not([open]):not(.screen)").forEach((d) => {
    closed.push(d);
    d.open = true;
  }));
  window.addEventListener("afterprint", () => closed.splice(0).forEach((d) => { d.open = false; }));
})();
