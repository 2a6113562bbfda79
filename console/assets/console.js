// Replaces what a page shows whenever the server says that it has changed, and lets forms act.
"use strict";

// What acts must bring came in the fragment of the first address. It is kept where no other port of this machine reads it:
// the cookie alone, which reaches all of them, opens pages and does nothing.
const brought = /^#act=(.+)$/.exec(location.hash);
if (brought) {
  localStorage.setItem("groupage-act", brought[1]);
  history.replaceState(null, "", location.pathname + location.search);
}

// A form takes it along when it is sent. The page waits for this script, so that no button can be pressed before.
addEventListener("formdata", ({ formData }) => {
  if (formData.has("form")) formData.set("form", localStorage.getItem("groupage-act") || "");
});

addEventListener("DOMContentLoaded", () => {
  const live = document.getElementById("live");
  const state = document.getElementById("state");

  /** The link or region that has the focus, by what identifies it after a change. */
  function focused() {
    const element = document.activeElement;
    if (!element || !live.contains(element)) return null;
    return element.getAttribute("href") ? `a[href="${CSS.escape(element.getAttribute("href"))}"]`
      : element.getAttribute("aria-label") ? `[aria-label="${CSS.escape(element.getAttribute("aria-label"))}"]` : null;
  }

  /** What came while a button of the pointer was down: a browser clicks only what is still there when it is released. */
  let held = null;
  let isPressed = false;
  live?.addEventListener("pointerdown", () => { isPressed = true; });
  for (const end of ["pointerup", "pointercancel", "blur"]) {
    // After the click, which comes with the release.
    addEventListener(end, () => setTimeout(() => {
      isPressed = false;
      if (held !== null) show(held);
    }));
  }

  function show(text) {
    held = isPressed ? text : null;
    if (isPressed) return;
    // Nobody's selection is taken away while they copy an id.
    const selection = document.getSelection();
    if (selection && !selection.isCollapsed && live.contains(selection.anchorNode)) return;
    const focus = focused();
    const places = [...live.querySelectorAll(".scroll")].map((region) => region.scrollLeft);
    live.innerHTML = text;
    live.querySelectorAll(".scroll").forEach((region, place) => { region.scrollLeft = places[place] || 0; });
    if (focus) live.querySelector(focus)?.focus({ preventScroll: true });
  }

  if (live && window.EventSource) {
    const events = new EventSource(live.dataset.updates);
    events.onopen = () => { state.textContent = "Live."; };
    events.onmessage = (event) => show(event.data);
    events.onerror = () => { state.textContent = "Not live: the console does not answer. What you see may be old."; };
  }
});
