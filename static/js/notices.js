/* Notices: few at a time, and good news leave by themselves. */
import { all, one } from "./dom.js";

const MOST_NOTICES = 4; // notices at a time
const STAYS = 8000; // milliseconds
const STAYS_UNDO = 30000; // what can be undone
const STAYS_SHORT = 2500; // for what the eye sees anyway
const STAYS_READ = 2000; // more, as long as somebody points at it

/** Shows a notice of that level: info, success, warning or error. */
export function notify(level, title, detail = "", short = false) {
  const box = document.createElement("div");
  box.className = `notice n-${level}`;
  box.dataset.notice = level;
  if (short) box.dataset.short = "1";
  const words = document.createElement("div");
  const strong = document.createElement("strong");
  strong.textContent = title;
  words.append(strong);
  if (detail) {
    const more = document.createElement("p");
    more.textContent = detail;
    words.append(more);
  }
  const close = document.createElement("button");
  close.type = "button";
  close.className = "quiet small";
  close.dataset.dismiss = "";
  close.setAttribute("aria-label", "Dismiss");
  close.textContent = "×";
  box.append(words, close);
  one("#notices")?.append(box);
  ageNotices();
}

function ageNotices() {
  const notices = all("#notices .notice");
  notices.slice(0, -MOST_NOTICES).forEach((notice) => notice.remove());
  for (const notice of notices) {
    if (notice.dataset.aging || !/info|success/.test(notice.dataset.notice)) continue;
    notice.dataset.aging = "1";
    const leave = () => (notice.matches(":hover, :focus-within") ? setTimeout(leave, STAYS_READ) : notice.remove());
    const undo = notice.querySelector(".notice-undo");
    setTimeout(leave, undo ? STAYS_UNDO : notice.dataset.short ? STAYS_SHORT : STAYS);
  }
}

document.addEventListener("click", ({ target }) => {
  if (target.closest("[data-dismiss]")) target.closest(".notice").remove();
});
// What was undone cannot be undone again.
document.addEventListener("htmx:after:request", ({ detail: { ctx } }) => {
  const done = ctx.response?.status === 200 && ctx.sourceElement?.matches?.(".notice-undo");
  if (done) ctx.sourceElement.closest(".notice")?.remove();
});
document.addEventListener("htmx:after:settle", ageNotices);
ageNotices();
