/* What pages are read from, where there is a standby: told anew with each live refresh. */
import { all, put } from "./dom.js";

/** Shows what the server says of its standby, after a `!` where that warns; nothing where there is none. */
export function tellStandby(said) {
  if (!said) return;
  const warns = said.startsWith("!");
  const words = decodeURIComponent(warns ? said.slice(1) : said);
  for (const foot of all("[data-standby]")) put(foot, words);
  for (const tag of all("[data-standby-tag]")) {
    tag.hidden = !warns;
    tag.title = words;
  }
}
