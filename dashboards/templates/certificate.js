"use strict";

// Claims are filtered by verdict in the style sheet; this adds finding by words, opening all, and links that say both.
const claims = [...document.querySelectorAll(".claim")].map((row) => ({
  row,
  details: row.querySelector("details"),
  words: row.textContent.toLowerCase(),
}));
const places = [...document.querySelectorAll(".place")];
const find = document.getElementById("find");
const none = document.getElementById("none");

function tellIfNone() {
  none.hidden = claims.some(({ row }) => row.checkVisibility());
}

function filter() {
  const wanted = find.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const { row, words } of claims) row.classList.toggle("filtered", !wanted.every((word) => words.includes(word)));
  for (const place of places) place.classList.toggle("filtered", !place.querySelector(".claim:not(.filtered)"));
  tellIfNone();
}

function openAll(open) {
  for (const { row, details } of claims) if (!open || row.checkVisibility()) details.open = open;
}

function follow() {
  const place = decodeURIComponent(location.hash.slice(1));
  if (place.startsWith("show-")) document.getElementById(place)?.click();
  const claim = claims.find(({ row }) => row.id === place);
  if (claim) claim.details.open = true;
}

find.closest(".find").hidden = false;
find.addEventListener("input", filter);
for (const button of document.querySelectorAll("[data-open]")) {
  button.addEventListener("click", () => openAll(button.dataset.open === "true"));
}
for (const choice of document.querySelectorAll("input[name='verdict']")) {
  choice.addEventListener("change", () => {
    history.replaceState(null, "", `#${choice.id}`);
    tellIfNone();
  });
}
window.addEventListener("beforeprint", () => openAll(true));
window.addEventListener("hashchange", follow);
follow();
