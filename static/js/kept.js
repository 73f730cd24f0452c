/* What the browser holds and no answer takes back: opened details, the live dot, the selection bar; and where lines and
   logs are scrolled to. */
import { all } from "./dom.js";
import { isLive } from "./requests.js";

const AT_END = 4; // pixels that a log may miss of its end

const ATTRIBUTES = { DETAILS: ["open"], DIALOG: ["open"], INPUT: ["aria-expanded", "aria-activedescendant"] };

const isKept = (element, name) => ATTRIBUTES[element.tagName]?.includes(name)
  || name === "data-all" || name === "data-beat" || name.startsWith("data-live-")
  || (name === "hidden" && element.matches("[data-new-rows], #suggestions"));

htmx.registerExtension("riverui", {
  htmx_before_morph_attr: (element, { attrName }) => !isKept(element, attrName),
});

let logsAtEnd = []; // which are to show their newest lines

document.addEventListener("htmx:before:swap", ({ detail: { ctx } }) => {
  if (!isLive(ctx)) return;
  const missing = (log) => log.scrollHeight - log.scrollTop - log.clientHeight;
  logsAtEnd = all("pre.log").filter((log) => log.scrollTop > 0 && missing(log) < AT_END);
});
document.addEventListener("htmx:after:settle", () => {
  for (const log of logsAtEnd) log.scrollTop = log.scrollHeight;
});

// What happens now is at the end of a job's timeline.
for (const line of all(".timeline")) line.scrollLeft = line.scrollWidth;
