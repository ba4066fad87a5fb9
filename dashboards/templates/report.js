"use strict";

// Coordinates are those of the figures' viewBox unless they end in `Px`.
const SNAP = 45; // how far from a mark the pointer still selects it
const SAME_SPOT = 5; // marks this close to the selected one are told together
const MOST_TOLD = 4;

const tip = document.getElementById("tip");
const spoken = document.getElementById("spoken");

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function readMarks(plot) {
  return [...plot.querySelectorAll(".mark")].map((node) => ({
    key: node.dataset.key,
    curve: node.parentNode.dataset.curve,
    x: Number(node.getAttribute("x")),
    y: Number(node.getAttribute("y")),
    hidden: () => node.parentNode.classList.contains("off"),
  }));
}

function distance(one, other) {
  return Math.hypot(one.x - other.x, one.y - other.y);
}

function describe(point) {
  const block = element("div", "tip-point");
  block.append(element("p", "tip-head", point.label));
  const more = [point.settings === "–" ? "" : point.settings, point.seeds];
  block.append(element("p", "tip-more", more.filter(Boolean).join(" · ")));
  const table = element("table");
  for (const [name, mean, interval] of point.lines) {
    const row = table.insertRow();
    row.append(element("th", "", name), element("td", "", mean), element("td", "tip-more", interval));
  }
  block.append(table);
  return block;
}

function say(point) {
  const lines = point.lines.map((line) => line.join(" ")).join(", ");
  return [`${point.label}, ${point.settings}: ${lines}`, point.seeds].filter(Boolean).join(", ");
}

function placeTip(xPx, yPx) {
  const gap = 16;
  const right = xPx + gap + tip.offsetWidth > document.documentElement.clientWidth;
  const below = yPx + gap + tip.offsetHeight > window.innerHeight;
  tip.style.left = `${Math.max(4, right ? xPx - gap - tip.offsetWidth : xPx + gap)}px`;
  tip.style.top = `${Math.max(4, below ? yPx - gap - tip.offsetHeight : yPx + gap)}px`;
}

function watchPlot(plot, points) {
  const svg = plot.querySelector("svg");
  const ring = svg.querySelector(".ring");
  const marks = readMarks(plot);
  let selected = null;

  const visible = () => marks.filter((mark) => !mark.hidden());

  function select(mark, aloud) {
    selected = mark;
    tip.hidden = !mark;
    ring.classList.toggle("on", Boolean(mark));
    if (!mark) return;
    ring.setAttribute("cx", mark.x);
    ring.setAttribute("cy", mark.y);
    const together = visible().filter((other) => other !== mark && distance(other, mark) < SAME_SPOT);
    tip.replaceChildren(...[mark, ...together].slice(0, MOST_TOLD).map((each) => describe(points[each.key])));
    const untold = together.length + 1 - MOST_TOLD;
    if (untold > 0) tip.append(element("p", "tip-point tip-more", `and ${untold} more here`));
    const placePx = new DOMPoint(mark.x, mark.y).matrixTransform(svg.getScreenCTM());
    placeTip(placePx.x, placePx.y);
    if (aloud) spoken.textContent = say(points[mark.key]);
  }

  function nearest(event) {
    const here = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    let best = null;
    for (const mark of visible()) {
      if (distance(mark, here) < (best ? distance(best, here) : SNAP)) best = mark;
    }
    return best;
  }

  function step(key) {
    const shown = visible();
    if (!shown.length) return;
    if (!selected || selected.hidden()) return select(shown[0], true);
    const curves = [...new Set(shown.map((mark) => mark.curve))];
    const along = shown.filter((mark) => mark.curve === selected.curve);
    const turn = { ArrowRight: 1, ArrowLeft: -1 }[key];
    if (turn) {
      const place = along.indexOf(selected) + turn;
      return select(along[Math.min(Math.max(place, 0), along.length - 1)], true);
    }
    const way = key === "ArrowDown" ? 1 : curves.length - 1;
    const curve = curves[(curves.indexOf(selected.curve) + way) % curves.length];
    const from = selected;
    const others = shown.filter((mark) => mark.curve === curve);
    select(others.reduce((one, other) => (Math.abs(other.x - from.x) < Math.abs(one.x - from.x) ? other : one)), true);
  }

  plot.addEventListener("pointermove", (event) => select(nearest(event), false));
  plot.addEventListener("pointerleave", () => select(null, false));
  plot.addEventListener("blur", () => select(null, false));
  plot.addEventListener("keydown", (event) => {
    if (event.key === "Escape") return select(null, false);
    if (!event.key.startsWith("Arrow")) return;
    event.preventDefault();
    step(event.key);
  });
}

function watchLegend(panel) {
  const keys = [...panel.querySelectorAll(".key")];
  const shapes = [...panel.querySelectorAll(".plot [data-curve]")];

  function show(key, on) {
    key.setAttribute("aria-pressed", String(on));
    for (const shape of shapes) if (shape.dataset.curve === key.dataset.curve) shape.classList.toggle("off", !on);
  }

  function highlight(curve) {
    for (const shape of shapes) {
      shape.classList.toggle("dim", curve !== null && shape.dataset.curve !== curve);
      shape.classList.toggle("lit", shape.dataset.curve === curve);
    }
  }

  for (const key of keys) {
    key.addEventListener("click", () => show(key, key.getAttribute("aria-pressed") !== "true"));
    for (const event of ["pointerenter", "focus"]) {
      key.addEventListener(event, () => highlight(key.getAttribute("aria-pressed") === "true" ? key.dataset.curve : null));
    }
    for (const event of ["pointerleave", "blur"]) key.addEventListener(event, () => highlight(null));
  }
  for (const button of panel.querySelectorAll("[data-all]")) {
    button.addEventListener("click", () => keys.forEach((key) => show(key, button.dataset.all === "true")));
  }
}

// Missing values stay at the end whichever way a column is sorted.
function compare(one, other, direction) {
  if (one === undefined || other === undefined) return (one === undefined) - (other === undefined);
  const [a, b] = [Number(one), Number(other)];
  const numeric = one !== "" && other !== "" && !Number.isNaN(a) && !Number.isNaN(b);
  return direction * (numeric ? a - b : one.localeCompare(other));
}

function watchSorting(table) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    head.querySelector("button").addEventListener("click", () => {
      const ascending = head.getAttribute("aria-sort") !== "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
      const value = (row) => row.cells[column].dataset.sort;
      const rows = [...table.tBodies[0].rows];
      rows.sort((one, other) => compare(value(one), value(other), ascending ? 1 : -1));
      table.tBodies[0].append(...rows);
    });
  });
}

for (const panel of document.querySelectorAll(".panel")) {
  const points = JSON.parse(panel.querySelector(".points").textContent);
  for (const plot of panel.querySelectorAll(".plot")) watchPlot(plot, points);
  watchLegend(panel);
}
for (const table of document.querySelectorAll("table.sortable")) watchSorting(table);
