// Replaces what a page shows whenever the server says that it has changed. Without this, a page shows what it did at first.
"use strict";

// What acts must bring came in the fragment of the first address. It is kept where no other port of this machine reads it:
// the cookie alone, which reaches all of them, opens pages and does nothing.
const brought = /^#act=(.+)$/.exec(location.hash);
if (brought) {
  localStorage.setItem("groupage-act", brought[1]);
  history.replaceState(null, "", location.pathname + location.search);
}

/** Puts it into the forms. */
function enable() {
  for (const field of document.querySelectorAll('input[name="form"]')) field.value = localStorage.getItem("groupage-act") || "";
}
enable();

const live = document.getElementById("live");
const state = document.getElementById("state");

/** The link or region that has the focus, by what identifies it after a change. */
function focused() {
  const element = document.activeElement;
  if (!element || !live.contains(element)) return null;
  return element.getAttribute("href") ? `a[href="${CSS.escape(element.getAttribute("href"))}"]`
    : element.getAttribute("aria-label") ? `[aria-label="${CSS.escape(element.getAttribute("aria-label"))}"]` : null;
}

function show(text) {
  // Nobody's selection is taken away while they copy an id.
  const selection = document.getSelection();
  if (selection && !selection.isCollapsed && live.contains(selection.anchorNode)) return;
  const focus = focused();
  const places = [...live.querySelectorAll(".scroll")].map((region) => region.scrollLeft);
  live.innerHTML = text;
  enable();
  live.querySelectorAll(".scroll").forEach((region, place) => { region.scrollLeft = places[place] || 0; });
  if (focus) live.querySelector(focus)?.focus({ preventScroll: true });
}

if (live && window.EventSource) {
  const events = new EventSource(live.dataset.updates);
  events.onopen = () => { state.textContent = "Live."; };
  events.onmessage = (event) => show(event.data);
  events.onerror = () => { state.textContent = "Not live: the console does not answer. What you see may be old."; };
}
