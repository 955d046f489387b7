// The console's only script. Every page works without it; with it,
// - parts marked data-live are fetched again every few seconds while the page is visible, those marked data-soon every second,
// - keys open pages: "/" the search, "g" and a letter a page of the menu, "?" the list of keys,
// - a box in a table's head checks all boxes of its column.
"use strict";

const REFRESH_MS = 5000;
const SOON_MS = 1000; // for a part that waits for something, marked data-soon
const SEQUENCE_MS = 1500; // between "g" and its letter

// --- live parts

let isRefreshing = false;

async function refresh() {
  const parts = [...document.querySelectorAll("[data-live]")];
  if (!parts.length || document.hidden || isRefreshing) return;
  isRefreshing = true;
  const state = document.getElementById("live-state");
  try {
    const answer = await fetch(location.href, { headers: { "X-Live": "1" }, credentials: "same-origin" });
    if (answer.redirected) {
      location.reload();
      return;
    }
    if (!answer.ok) throw new Error(`the console answered ${answer.status}`);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of parts) {
      const fresh = page.getElementById(part.id);
      const isUsed = part.contains(document.activeElement) && document.activeElement !== document.body;
      if (fresh && !isUsed) part.replaceWith(document.adoptNode(fresh));
    }
    if (state) state.textContent = "live";
    document.body.classList.remove("stale");
  } catch (error) {
    if (state) state.textContent = `not live: ${error.message}`;
    document.body.classList.add("stale");
  } finally {
    isRefreshing = false;
  }
}

async function refreshForEver() {
  await refresh();
  setTimeout(refreshForEver, document.querySelector("[data-soon]") ? SOON_MS : REFRESH_MS);
}

setTimeout(refreshForEver, document.querySelector("[data-soon]") ? SOON_MS : REFRESH_MS);
document.addEventListener("visibilitychange", refresh);

// --- on a telephone the menu scrolls sideways: show where one is

document.querySelector("nav a[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });

// --- keys

let prefixAt = -SEQUENCE_MS;

function isTyping(target) {
  return target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName);
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  const keys = document.getElementById("keys");
  if (isTyping(event.target)) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (event.key === "Escape") {
    document.querySelector("details.switch")?.removeAttribute("open");
  } else if (event.timeStamp - prefixAt < SEQUENCE_MS) {
    prefixAt = -SEQUENCE_MS;
    const link = document.querySelector(`nav a[data-key="${CSS.escape(event.key)}"]`);
    if (link) link.click();
  } else if (event.key === "/") {
    const search = document.querySelector("main input[type=search]") || document.querySelector("input[type=search]");
    if (search) {
      event.preventDefault();
      search.focus();
      search.select();
    }
  } else if (event.key === "?" && keys && !keys.open) {
    keys.showModal();
  } else if (event.key === "g") {
    prefixAt = event.timeStamp;
  }
});

// --- tables

document.addEventListener("change", (event) => {
  const head = event.target.closest("[data-check-all]");
  if (!head) return;
  for (const box of document.getElementsByName(head.dataset.checkAll)) box.checked = head.checked;
});
