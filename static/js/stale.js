/* A live region that could not be refreshed keeps what it shows, and says so and why. */
import { one } from "./dom.js";

/** Returns the title of the notice in a failed answer, if there is one. */
export const titleOf = (fragment) => fragment?.querySelector(".notice strong")?.textContent.trim() ?? "";

/** Says in the region why it is not refreshed, or nothing more where there is no reason. */
export function tellStale(region, why) {
  const told = one(":scope > [data-stale]", region);
  if (!why) {
    told?.remove();
    return;
  }
  const words = `Not up to date. ${why}. Trying again.`;
  if (told?.textContent === words) return;
  const box = told ?? document.createElement("p");
  box.className = "stale";
  box.dataset.stale = "";
  box.setAttribute("role", "status");
  box.textContent = words;
  if (!told) region.prepend(box);
}
