"use strict";

// Parts of a page that say data-live are fetched anew every data-every seconds and changed where they differ: what did
// not change stays the same element, so that focus, scrolled boxes and opened details stay as they are.

const MOST_WAIT = 30;

function keyOf(node) {
  return node.nodeType === Node.ELEMENT_NODE ? node.dataset.key || node.id : "";
}

function alike(one, other) {
  return one.nodeType === other.nodeType && one.nodeName === other.nodeName && keyOf(one) === keyOf(other);
}

function takeAttributes(old, fresh) {
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value && name !== "open") old.setAttribute(name, value);
  }
}

function become(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  takeAttributes(old, fresh);
  const wanted = new Set([...fresh.childNodes].map(keyOf));
  for (const child of [...old.childNodes]) if (keyOf(child) && !wanted.has(keyOf(child))) child.remove();
  const keyed = new Map([...old.childNodes].filter(keyOf).map((child) => [keyOf(child), child]));
  let place = old.firstChild;
  for (const child of [...fresh.childNodes]) {
    const found = keyOf(child) ? keyed.get(keyOf(child)) : place;
    if (!found || !alike(found, child)) {
      old.insertBefore(child, place);
      continue;
    }
    keyed.delete(keyOf(child)); // of several with one key each takes another place
    if (found === place) place = place.nextSibling;
    else old.insertBefore(found, place);
    become(found, child);
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

function isSelectedIn(part) {
  const selection = document.getSelection();
  return selection !== null && !selection.isCollapsed && part.contains(selection.anchorNode);
}

function say(text) {
  const line = document.getElementById("connection");
  if (line.textContent !== text) line.textContent = text;
}

async function freshen(part) {
  const address = new URL(part.dataset.live, location.href);
  if (part.dataset.version) address.searchParams.set("seen", part.dataset.version);
  const answer = await fetch(address, { redirect: "manual", cache: "no-store" });
  if (answer.type === "opaqueredirect") return location.reload(); // the session has ended
  if (!answer.ok) throw new Error(answer.statusText);
  if (answer.status === 204 || isSelectedIn(part)) return;
  const holder = document.createElement("template");
  holder.innerHTML = await answer.text();
  const fresh = holder.content.firstElementChild;
  if (fresh && fresh.id === part.id) become(part, document.importNode(fresh, true));
}

function watch(part) {
  let failures = 0;
  async function look() {
    if (!document.hidden) {
      try {
        await freshen(part);
        failures = 0;
        say("");
      } catch {
        failures += 1;
        if (failures > 1) say("The service does not answer; this page shows how things stood. It is asked again.");
      }
    }
    if (part.dataset.live) setTimeout(look, 1000 * Math.min(MOST_WAIT, Number(part.dataset.every) * 2 ** failures));
  }
  setTimeout(look, 1000 * Number(part.dataset.every));
}

for (const part of document.querySelectorAll("[data-live]")) watch(part);
