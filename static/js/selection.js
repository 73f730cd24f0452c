/* Which jobs are ticked, and the bar with what can be done with them. */
import { all, one, plural, put } from "./dom.js";
import { boxes, boxOf, isScrolled, offerNew, rows, stateOf, ticked } from "./job-rows.js";
import { paintLive } from "./live.js";

let anchor = ""; // the id of the row that was ticked last: a range begins there

/** Draws what follows from the ticked boxes. */
export function paintSelection() {
  const total = boxes().length;
  const count = ticked().length;
  for (const head of all("[data-check-all]")) {
    head.checked = count > 0 && count === total;
    head.indeterminate = count > 0 && count < total;
  }
  const words = one("[data-selected]");
  if (words) put(words, `${plural(count, "job")} selected`);
  // Each verb says for how many of them it is meant.
  for (const button of all("[data-bulk] [data-fits]")) {
    const states = button.dataset.fits.split(" ");
    const fitting = ticked().filter((box) => states.includes(stateOf(box.closest("tbody")))).length;
    button.hidden = count > 0 && !fitting;
    put(one("[data-count]", button), fitting ? String(fitting) : "");
  }
  const bar = one("[data-bulk]");
  if (bar && count < total) bar.removeAttribute("data-all");
  const more = one("[data-all-matching]");
  if (more) more.hidden = count < total;
  if (!count && !isScrolled()) offerNew(0);
  paintLive();
}

function tick(row, on) {
  const box = row && boxOf(row);
  if (box) box.checked = on;
}

/** Ticks or clears one row; ranges begin there from now on. */
export function select(row, on) {
  tick(row, on);
  anchor = row.id;
  paintSelection();
}

/** Ticks or clears every row from the one ticked last to this one. */
export function selectTo(row, on) {
  const list = rows();
  const from = list.findIndex((other) => other.id === anchor);
  const to = list.indexOf(row);
  const [low, high] = from < 0 ? [to, to] : [Math.min(from, to), Math.max(from, to)];
  list.slice(low, high + 1).forEach((other) => tick(other, on));
  paintSelection();
}

/** Ticks or clears every row. */
export function selectAll(on) {
  rows().forEach((row) => tick(row, on));
  paintSelection();
}

/** Clears every row and forgets where a range would begin. */
export function unselect() {
  boxes().forEach((box) => { box.checked = false; });
  one("[data-bulk]")?.removeAttribute("data-all");
  anchor = "";
  paintSelection();
}

document.addEventListener("change", ({ target }) => {
  if (target.matches("[data-check-all]")) {
    selectAll(target.checked);
  } else if (target.matches('input[name="ids"]')) {
    paintSelection();
  }
});

document.addEventListener("click", (event) => {
  const { target } = event;
  const row = target.closest("tbody.job");
  if (row && event.shiftKey && !target.closest("a")) {
    // The click on a label is followed by one on its box: only the one on the box counts.
    if (target.closest("label") && !target.matches("input")) return;
    const box = boxOf(row);
    selectTo(row, target === box ? box.checked : true);
    anchor = row.id;
    getSelection()?.removeAllRanges();
  } else if (row && target.matches('input[name="ids"]')) {
    anchor = row.id;
  }
  if (target.closest("[data-unselect]")) {
    event.preventDefault();
    unselect();
  }
  if (target.closest("[data-all-matching]")) {
    one("[data-bulk]").dataset.all = "";
    one("[data-bulk] a.bulk-all")?.focus({ preventScroll: true });
  }
});

document.addEventListener("jobs-changed", unselect);
document.addEventListener("htmx:after:settle", paintSelection);
paintSelection();
