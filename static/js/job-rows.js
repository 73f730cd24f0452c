/* The rows of the list of jobs: which are ticked, and that they keep their places while somebody works with them. */
import { all, one, put } from "./dom.js";

const NEAR_TOP = 60; // pixels: who has scrolled further reads, and nothing moves below their eyes

const LISTS = ":is(#jobs-list, #dead-letters-list)";

export const rows = () => all(`${LISTS} tbody.job`);
export const boxOf = (row) => one('input[name="ids"]', row);
/** Returns the state of the row's job, which its icon shows. */
export const stateOf = (row) => /s-(\w+)/.exec(one(".c-state .icon", row)?.getAttribute("class") ?? "")?.[1];
export const boxes = () => all(`${LISTS} input[name="ids"]`);
export const ticked = () => all(`${LISTS} input[name="ids"]:checked`);
export const isScrolled = () => scrollY > NEAR_TOP;

/** Keeps the rows that are shown in their places: known rows take their new content, new rows only get counted.
    Returns whether the fragment may take the place of the list. */
export function keepPlaces(fragment, list) {
  const table = one("table.job-table", fragment);
  const shown = all("tbody.job", list);
  if (!shown.length) return true;
  if (!table) return false;
  const fresh = new Map(all("tbody.job", table).map((row) => [row.id, row]));
  for (const row of fresh.values()) row.remove();
  for (const row of shown) {
    const next = fresh.get(row.id) ?? row.cloneNode(true);
    if (!fresh.has(row.id)) next.dataset.gone = "";
    fresh.delete(row.id);
    table.append(next);
  }
  offerNew(one("#jobs-list", fragment)?.dataset.first === "1" ? fresh.size : 0);
  return true;
}

/** Shows the button that brings so many new rows, or hides it. */
export function offerNew(count) {
  const pill = one("[data-new-rows]");
  if (!pill) return;
  pill.hidden = !count;
  put(pill, `${count} new`);
}
