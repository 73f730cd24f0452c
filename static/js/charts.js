/* Charts: what a column shows stands beside pointer, finger or focus; arrow keys go from column to column. */
import { all, put, root } from "./dom.js";
import { clock } from "./times.js";

const tip = document.createElement("div");
tip.className = "chart-tip";
tip.hidden = true;
tip.setAttribute("aria-hidden", "true"); // columns have it as their names
document.body.append(tip);
const place = new CSSStyleSheet(); // where it stands
document.adoptedStyleSheets.push(place);

let shown = null; // the column that the tip stands at
let firstTap = false; // of a finger on a column: its link is for the second

const isLocal = () => root.dataset.time === "local";
const columnsOf = (plot) => all(".chart-hit", plot);
const nth = (columns, n) => columns[Math.max(0, Math.min(columns.length - 1, n))];

/** Returns what the column says, its time first, in the zone that the page shows times in. */
function linesOf(column) {
  const [, when, what] = /^(.*?): (.*)$/s.exec(column.getAttribute("aria-label"));
  const plot = column.closest("[data-chart]");
  const at = Date.parse(plot.dataset.from) + columnsOf(plot).indexOf(column) * plot.dataset.step * 1000;
  return [isLocal() ? clock(at, at, false).slice(0, 11) : when, ...what.split("; ")];
}

function show(column) {
  shown?.classList.remove("on");
  shown = column?.isConnected ? column : null;
  tip.hidden = !shown;
  if (!shown) return;
  shown.classList.add("on");
  tip.replaceChildren(...linesOf(shown).map((text) => {
    const line = document.createElement("p");
    line.textContent = text;
    return line;
  }));
  const box = shown.getBoundingClientRect();
  const left = Math.max(8, Math.min(box.x + box.width / 2 - tip.offsetWidth / 2, innerWidth - tip.offsetWidth - 8));
  place.replaceSync(`.chart-tip { translate: ${left}px ${Math.max(8, box.y - tip.offsetHeight - 6)}px; }`);
}

function follow({ target, clientX }) {
  const plot = target.closest?.("[data-chart]");
  if (plot) {
    const box = plot.getBoundingClientRect();
    const columns = columnsOf(plot);
    show(nth(columns, Math.floor(((clientX - box.x) / box.width) * columns.length)));
  } else if (shown !== document.activeElement) show(null);
}

/** Writes the labels of time axes in the zone that the page shows times in. */
function writeAxes() {
  for (const label of all("[data-clock]")) {
    const at = Date.parse(label.dataset.clock);
    const text = clock(at, at, !isLocal());
    put(label, label.textContent[2] === ":" ? text.slice(6, 11) : text.slice(0, 5));
  }
  for (const zone of all(".chart-zone")) put(zone, isLocal() ? "local" : "UTC");
}

document.addEventListener("pointerdown", (event) => {
  const before = shown;
  follow(event);
  firstTap = event.pointerType === "touch" && shown !== before;
});
document.addEventListener("pointermove", follow, { passive: true });
document.addEventListener("click", (event) => {
  if (firstTap && event.target.closest("[data-chart]")) event.preventDefault();
});
document.addEventListener("focusin", ({ target }) => show(target.closest(".chart-hit")));
document.addEventListener("keydown", (event) => {
  const column = event.target.closest?.(".chart-hit");
  const step = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
  if (!column || !step) return;
  event.preventDefault();
  const columns = columnsOf(column.closest("[data-chart]"));
  nth(columns, columns.indexOf(column) + step).focus();
});
document.addEventListener("htmx:after:settle", () => {
  writeAxes();
  show(shown);
});
addEventListener("scroll", () => show(shown), { passive: true });
root.addEventListener("pointerleave", () => show(null));
writeAxes();
