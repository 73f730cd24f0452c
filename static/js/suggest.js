/* Suggestions below the search field. */
import { all, one } from "./dom.js";

const ASK_PAUSE = 150; // milliseconds without a key until suggestions are asked for
const ANSWERS_KEPT = 100; // answers

const answers = new Map();
let asking = null;
let expected = false; // suggestions that are on their way
let askTimer = 0;

const listOf = () => one("#suggestions");
const options = () => all('#suggestions [role="option"]');
const chosen = () => one('#suggestions [aria-selected="true"]');

/** Hides the suggestions, and forgets those on their way. */
function hideSuggestions() {
  asking?.abort();
  clearTimeout(askTimer);
  expected = false;
  const list = listOf();
  if (!list) return;
  list.hidden = true;
  const field = one("#q");
  field.setAttribute("aria-expanded", "false");
  field.removeAttribute("aria-activedescendant");
}

/** Returns the suggestions for that question as markup; null where there are none to be had. */
export async function answerTo(address, question, target = "") {
  asking?.abort();
  const asked = `${address}?${question}`;
  if (answers.has(asked)) return answers.get(asked);
  asking = new AbortController();
  try {
    const headers = { "HX-Request": "true", "HX-Target": target };
    const answer = await fetch(asked, { headers, signal: asking.signal });
    if (!answer.ok) return null;
    answers.set(asked, await answer.text());
    if (answers.size > ANSWERS_KEPT) answers.delete(answers.keys().next().value);
    return answers.get(asked);
  } catch {
    return null; // typed on, or the server is away: no suggestions is no harm
  }
}

function askSuggestions(pause) {
  clearTimeout(askTimer);
  expected = true;
  askTimer = setTimeout(async () => {
    const field = one("#q");
    const form = field?.closest("[data-suggest]");
    if (!form || document.activeElement !== field) return;
    const at = String(field.selectionStart ?? field.value.length);
    const markup = await answerTo(form.dataset.suggest, new URLSearchParams({ q: field.value, at }).toString());
    if (markup === null || document.activeElement !== field) return;
    expected = false;
    listOf().innerHTML = markup;
    const some = options().length > 0;
    listOf().hidden = !some;
    field.setAttribute("aria-expanded", String(some));
    field.removeAttribute("aria-activedescendant");
  }, pause);
}

/** Chooses the option of the list that is so many steps from the chosen one, for the field above it. */
export function choose(step, field = one("#q"), list = options()) {
  if (!list.length) return;
  const at = list.findIndex((option) => option.ariaSelected === "true");
  const next = list[(at + step + list.length + (at < 0 && step < 0 ? 1 : 0)) % list.length];
  list.forEach((option) => option.setAttribute("aria-selected", String(option === next)));
  field.setAttribute("aria-activedescendant", next.id);
  next.scrollIntoView({ block: "nearest" });
}

function take(option) {
  const field = one("#q");
  const rest = field.value.slice(field.selectionStart ?? field.value.length);
  field.value = option.dataset.insert;
  field.focus();
  // The caret goes behind what was put in: before that part of the old text which still ends the new one.
  let kept = rest.length;
  while (!field.value.endsWith(rest.slice(rest.length - kept))) kept -= 1;
  field.setSelectionRange(field.value.length - kept, field.value.length - kept);
  // What was chosen is done with: a quick second Enter searches.
  hideSuggestions();
  askSuggestions(0);
}

/** Does what a key means in the search field. */
export function suggestionKey(event) {
  const open = listOf() && !listOf().hidden;
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    if (!open) askSuggestions(0);
    else choose(event.key === "ArrowDown" ? 1 : -1);
    event.preventDefault();
  } else if (open && (event.key === "Enter" || event.key === "Tab") && chosen()) {
    event.preventDefault();
    take(chosen());
  } else if (event.key === "Enter") {
    hideSuggestions();
  } else if (event.key === "Escape") {
    event.preventDefault();
    if (open || expected) hideSuggestions();
    else event.target.blur();
  }
}

document.addEventListener("input", ({ target }) => {
  if (target.id === "q") askSuggestions(ASK_PAUSE);
});
document.addEventListener("focusin", ({ target }) => {
  if (target.id === "q" && target.closest("[data-suggest]")) askSuggestions(ASK_PAUSE);
  else if (!target.closest(".search")) hideSuggestions();
});
document.addEventListener("click", ({ target }) => {
  if (!target.closest(".search")) hideSuggestions();
});
document.addEventListener("mousedown", (event) => {
  const option = event.target.closest('#suggestions [role="option"]');
  if (!option) return;
  event.preventDefault();
  take(option);
});
