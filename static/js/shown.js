/* What each live region shows: its server is told by name, and sends nothing while that is still so. */

let names = new WeakMap(); // region → the ETag of what it shows, and whether rows kept their places over it

/** Returns the name of what the region shows, or an empty one where that is not what the server sent: rows that kept
    their places do so only as long as somebody works with them. */
export function nameOf(region, rowsStay) {
  const shown = names.get(region);
  return shown && (rowsStay || !shown.rowsKept) ? shown.name : "";
}

/** Notes what was put into the region; without a name it has to be sent anew. */
export function noteShown(region, name, rowsKept) {
  if (name) names.set(region, { name, rowsKept });
  else names.delete(region);
}

/** Forgets all of it, as something else was put into the page. */
export function forgetShown() {
  names = new WeakMap();
}
