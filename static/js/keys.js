/* The keyboard; templates/about/_help.html lists the same keys. */
import { all, one } from "./dom.js";
import { boxOf, rows, ticked } from "./job-rows.js";
import { refreshNow } from "./live.js";
import { paletteKey } from "./palette.js";
import { isBusy } from "./requests.js";
import { select, selectAll, selectTo, unselect } from "./selection.js";
import { suggestionKey } from "./suggest.js";

const SECOND_KEY = 1200; // milliseconds that `g` waits for the key after it

let goUntil = 0;
let stepLater = 0; // a step in a list that is just being fetched

const focusedRow = () => document.activeElement?.closest?.("tbody.job");

function openRow(step) {
  if (isBusy()) {
    stepLater = step;
    return;
  }
  const links = all("main [data-open]");
  if (!links.length) return;
  const here = document.activeElement?.closest?.("tbody.job, tr")?.querySelector("[data-open]");
  const at = links.indexOf(here);
  links[Math.max(0, Math.min(links.length - 1, at < 0 ? 0 : at + step))].focus();
}

/** Presses the button of the verb that has this key: for the ticked jobs, the focused row, or the page's job. */
function act(key) {
  if (!one("#jobs-list")) {
    one(`#job [data-key="${key}"]`)?.click();
    return;
  }
  const here = focusedRow();
  if (!ticked().length && here) select(here, true);
  const every = one("[data-bulk][data-all]") ? "a" : "button";
  if (ticked().length) one(`[data-bulk] ${every}[data-key="${key}"]`)?.click();
}

/** Leaves what is open, ticked or focused, the innermost first; then the page. */
function back() {
  const menu = one(".menu[open]");
  const focused = document.activeElement;
  if (menu) {
    menu.open = false;
    one("summary", menu).focus();
  } else if (ticked().length) unselect();
  else if (focused?.closest?.("main") && focused !== one("main")) focused.blur();
  else one("a.back")?.click();
}

function toggleRow() {
  const row = focusedRow();
  if (!row) return;
  select(row, !boxOf(row).checked);
  // The bar that comes up with the first one covers no row that a key has ticked.
  if (boxOf(row).checked) row.scrollIntoView({ block: "nearest" });
}

const KEYS = {
  "/": () => { const field = one("#q"); field?.focus(); field?.select(); },
  "j": () => openRow(1),
  "k": () => openRow(-1),
  "x": toggleRow,
  "X": () => { if (focusedRow()) selectTo(focusedRow(), true); },
  "a": () => selectAll(ticked().length !== rows().length),
  "n": () => one("a[data-new-job]")?.click(),
  "g": () => { goUntil = Date.now() + SECOND_KEY; },
  ".": refreshNow,
  "?": () => one('.rail [data-section="help"]')?.click(),
  "Escape": back,
};

/** Gives the focus from the search field to the rows that it has found, so that the next keys act on them. */
function focusFound({ sourceElement }) {
  const field = one("#q");
  if (!sourceElement?.matches?.(".search") || document.activeElement !== field) return;
  if (field.value === field.defaultValue) one("main [data-open]")?.focus({ preventScroll: true });
}

document.addEventListener("keydown", (event) => {
  stepLater = 0;
  if (paletteKey(event)) return;
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (event.target.id === "q") {
    suggestionKey(event);
    return;
  }
  if (event.target.matches("input:not([type=checkbox]), textarea, select")) {
    if (event.key === "Escape") back();
    return;
  }
  if (one("dialog[open]")) return;
  if (event.key === " " && event.target.matches("a[role=checkbox]")) {
    event.preventDefault();
    event.target.click();
    return;
  }
  const section = Date.now() < goUntil && /^[a-z]$/.test(event.key) && one(`.rail [data-keys="g ${event.key}"]`);
  if (section) {
    goUntil = 0;
    event.preventDefault();
    section.click();
    return;
  }
  const verb = /^[a-z]$/.test(event.key) && one(`[data-key="${event.key}"]`);
  const action = KEYS[event.key] ?? (verb && (() => act(event.key)));
  if (!action) return;
  event.preventDefault();
  action();
});

document.addEventListener("htmx:finally:request", ({ detail: { ctx } }) => {
  focusFound(ctx);
  if (isBusy()) return;
  if (stepLater) openRow(stepLater);
  stepLater = 0;
});
