/* Shorthands for the document. Every listener sits on the document, so that swapped-in parts need no wiring. */

export const root = document.documentElement;
export const one = (selector, from = document) => from.querySelector(selector);
export const all = (selector, from = document) => [...from.querySelectorAll(selector)];
export const plural = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;

/** Writes the text, unless the element has it already: nothing is drawn anew for the same words. */
export function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
