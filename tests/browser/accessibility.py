"""What a page must be for everybody, asked of the browser that shows it: names, contrast, headings, keyboard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.browser.conftest import Window

NAMED = {"button", "link", "textbox", "searchbox", "combobox", "radio", "progressbar", "table", "region", "navigation",
         "img", "image", "search", "form", "group", "DisclosureTriangle", "list"}  # fmt: skip
"""Roles of which each must say what it is."""

UNNAMED = {"group", "list", "image", "img", "form"}
"""Of these only those that the page itself gives a role or a label."""

CONTRASTS = """
const parse = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
const over = (top, below) => {
  const alpha = top.length > 3 ? top[3] : 1;
  return [0, 1, 2].map((i) => top[i] * alpha + below[i] * (1 - alpha));
};
const ground = (element) => {
  const layers = [];
  for (let at = element; at; at = at.parentElement) layers.push(parse(getComputedStyle(at).backgroundColor));
  const base = matchMedia("(prefers-color-scheme: dark)").matches ? [17, 19, 22] : [255, 255, 255];
  return layers.reverse().reduce((below, layer) => (layer.length < 3 ? below : over(layer, below)), base);
};
const light = (colour) => {
  const [r, g, b] = colour.map((part) => {
    const value = part / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const contrast = (one, other) => {
  const [dark, bright] = [light(one), light(other)].sort((a, b) => a - b);
  return (bright + 0.05) / (dark + 0.05);
};
const seen = (element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true })
  && element.getClientRects().length > 0 && !element.closest(".hidden");
const poor = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (let node = walker.nextNode(); node; node = walker.nextNode()) {
  const element = node.parentElement;
  if (!node.data.trim() || !seen(element) || element.closest("script, style, option, [aria-hidden=true] svg")) continue;
  const style = getComputedStyle(element);
  const below = ground(element);
  const colour = over(parse(element.closest("svg") ? style.fill : style.color), below);
  const size = parseFloat(style.fontSize);
  const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
  const found = contrast(colour, below);
  if (found < (large ? 3 : 4.5)) poor.push(`${node.data.trim().slice(0, 40)}: ${found.toFixed(2)}`);
}
const edged = "input:not([type=hidden]):not([type=radio]), select, button, .button, .bar";
for (const control of document.querySelectorAll(edged)) {
  if (!seen(control)) continue;
  const edge = parse(getComputedStyle(control).borderTopColor);
  const found = contrast(over(edge, ground(control)), ground(control.parentElement));
  if (found < 3) poor.push(`edge of ${control.id || control.textContent}: ${found.toFixed(2)}`);
}
return poor;
"""

STRUCTURE = """
const problems = [];
const levels = [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")].map((head) => Number(head.tagName[1]));
if (levels.filter((level) => level === 1).length !== 1) problems.push(`h1: ${levels}`);
levels.forEach((level, at) => { if (at && level > levels[at - 1] + 1) problems.push(`headings: ${levels}`); });
if (document.querySelectorAll("main").length !== 1) problems.push("one main is needed");
if (!document.documentElement.lang) problems.push("no language");
const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) problems.push(`id ${id} stands twice`);
for (const name of ["aria-labelledby", "aria-describedby"]) {
  for (const one of document.querySelectorAll(`[${name}]`)) {
    for (const id of one.getAttribute(name).split(" ")) if (!ids.includes(id)) problems.push(`${name} ${id}: nothing`);
  }
}
for (const table of document.querySelectorAll("table")) {
  if (!table.caption && !table.hasAttribute("aria-labelledby")) problems.push("a table without a caption");
}
for (const head of document.querySelectorAll("th:not([scope])")) problems.push(`th ${head.textContent} has no scope`);
return problems;
"""

REACHABLE = """
const wanted = "a[href], button, input:not([type=hidden], [type=radio]:not(:checked)), select, summary, [tabindex='0']";
return [...document.querySelectorAll(wanted)].filter((one) => one.checkVisibility({ visibilityProperty: true })).length;
"""


def unnamed(window: Window) -> list[str]:
    """Controls and regions that the browser tells a screen reader of without a name."""
    window.browser.execute_cdp_cmd("Accessibility.enable", {})
    nodes: list[dict[str, Any]] = window.browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    shown = [node for node in nodes if not node["ignored"] and node["role"]["value"] in NAMED - UNNAMED]
    return [node["role"]["value"] for node in shown if not node.get("name", {}).get("value", "").strip()]


def problems(window: Window) -> dict[str, list[str]]:
    """What is wrong with the page that is shown, in the colours that it is shown in; empty if nothing is."""
    found = {
        "names": unnamed(window),
        "contrast": list(window.run(CONTRASTS)),
        "structure": list(window.run(STRUCTURE)),
        "width": [] if window.fits() else ["wider than the window"],
    }
    return {name: wrong for name, wrong in found.items() if wrong}


def reached_by_keyboard(window: Window) -> tuple[int, int]:
    """How many controls the tabulator key reaches, and how many there are."""
    return len(window.tab_through()), int(window.run(REACHABLE))
