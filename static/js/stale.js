/* A live region that could not be refreshed keeps what it shows, and says so and why. */
import { one } from "./dom.js";

/** Returns what a failed answer says in its notice: title and details. */
export function saidBy(fragment) {
  const notice = fragment && one(".notice", fragment);
  if (!notice) return "";
  const [title, ...details] = [...notice.querySelectorAll("strong, p")].map((part) => part.textContent.trim());
  return [title, ...details].filter(Boolean).join(". ").replace(/\.\.+/g, ".").replace(/\.$/, "");
}

/** Says in the region why it is not refreshed, or nothing more where there is no reason. */
export function tellStale(region, why) {
  const told = one(":scope > [data-stale]", region);
  if (!why) {
    told?.remove();
    return;
  }
  const words = `Not up to date: ${why}. Trying again.`;
  if (told?.textContent === words) return;
  const box = told ?? document.createElement("p");
  box.className = "stale";
  box.dataset.stale = "";
  box.setAttribute("role", "status");
  box.textContent = words;
  if (!told) region.prepend(box);
}
