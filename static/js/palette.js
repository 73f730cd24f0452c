/* The palette (Ctrl K): what this page can do, and pages, queues, kinds, jobs and workflows by name. */
import { all, one } from "./dom.js";
import { answerTo, choose } from "./suggest.js";

const TYPING_PAUSE = 80; // milliseconds without a key until entries are asked for
const MOST_ACTIONS = 6;

let paletteTimer = 0;
let waiting = false; // for the entries of the text in the field
let enterLater = false; // Enter was pressed before they came

const box = () => one("#palette");
const field = () => one("#palette input");
const entries = () => all('#palette [role="option"]');
const chosenEntry = () => one('#palette [aria-selected="true"]');
const textOf = (element) => element.textContent.trim().replace(/\s+/g, " ");

/** Returns buttons and links of the page that do something, those in tables aside, by their labels. */
function actions(text) {
  const found = new Map();
  for (const element of all("main :is(.button, [data-verb], .links button, .links a:not([aria-current]))")) {
    const label = textOf(element);
    const shown = element.closest(".menu") ?? element;
    if (label && !found.has(label) && label.toLowerCase().includes(text) && !element.matches(".off, :disabled, summary")
      && !element.closest("table, dialog, .links:has([aria-current])")
      && shown.checkVisibility({ visibilityProperty: true })) found.set(label, element);
  }
  return [...found].slice(0, MOST_ACTIONS);
}

function entryOf([label, element], n) {
  const entry = document.createElement("a");
  const hint = document.createElement("span");
  const name = document.createElement("span");
  Object.assign(entry, { id: `palette-action-${n}`, className: "action", role: "option", tabIndex: -1, href: "#" });
  entry.setAttribute("aria-selected", "false");
  hint.className = "dim";
  hint.textContent = "action";
  name.textContent = label;
  const icon = one("svg", element)?.cloneNode(true) ?? document.createElement("i");
  entry.append(icon, name, " ", hint);
  entry.onclick = (event) => {
    event.preventDefault();
    box().close();
    element.click();
  };
  return entry;
}

function askEntries(pause) {
  const text = field().value.trim();
  waiting = true;
  clearTimeout(paletteTimer);
  paletteTimer = setTimeout(async () => {
    const question = new URLSearchParams({ q: text }).toString();
    const markup = await answerTo(box().dataset.address, question, "div#palette-list");
    if (text !== field().value.trim()) return; // typed on
    waiting = false;
    const list = one("#palette-list");
    list.innerHTML = (markup ?? "").trim();
    list.prepend(...actions(text.toLowerCase()).map(entryOf));
    if (text) choose(1, field(), entries());
    // What acts is not done before it was seen.
    if (enterLater && !chosenEntry()?.matches(".action")) chosenEntry()?.click();
  }, pause);
}

function openPalette() {
  if (one("dialog[open]") || !box()) return;
  box().showModal();
  field().value = "";
  one("#palette-list").replaceChildren();
  enterLater = false;
  askEntries(0);
}

/** Does what a key means for the palette; returns whether it was for it. */
export function paletteKey(event) {
  if (event.key?.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey) {
    event.preventDefault();
    if (box()?.open) box().close();
    else openPalette();
    return true;
  }
  if (!box()?.open) return false;
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    choose(event.key === "ArrowDown" ? 1 : -1, field(), entries());
  } else if (event.key === "Enter" && !event.isComposing) {
    event.preventDefault();
    if (waiting) enterLater = true;
    else chosenEntry()?.click();
  }
  return true;
}

document.addEventListener("input", ({ target }) => {
  if (target !== field()) return;
  enterLater = false;
  askEntries(TYPING_PAUSE);
});
document.addEventListener("click", (event) => {
  if (!event.target.closest("[data-palette]") || event.ctrlKey || event.metaKey || !box()) return;
  event.preventDefault();
  openPalette();
});
