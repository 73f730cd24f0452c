/* Which requests are under way: polls of live regions, steps of searches, and what a person asked for. */
import { root } from "./dom.js";

const SLOW = 300; // milliseconds until a request shows at the bar

const polls = new Set();
let asked = 0; // requests that a person waits for
let slowTimer = 0;

/** Returns whether a live region asked by itself, on its beat or because something changed. */
export const isLive = (ctx) => /^(live|[a-z]+-changed)$/.test(ctx.sourceEvent?.type ?? "");

/** Returns whether this is a step of a search. */
export const isStep = (ctx) => ctx.sourceEvent?.type === "step";

/** Returns whether a person waits for an answer. */
export const isBusy = () => asked > 0;

/** Returns whether that region waits for an answer to its poll. */
export const isPolling = (region) => [...polls].some((ctx) => ctx.sourceElement === region);

document.addEventListener("htmx:before:request", ({ detail: { ctx } }) => {
  if (isLive(ctx)) {
    polls.add(ctx);
    return;
  }
  if (isStep(ctx)) return;
  // What a person asked for goes first, and no late answer to a poll may undo it.
  for (const poll of polls) poll.request.abort();
  asked += 1;
  ctx.counted = true;
  slowTimer ||= setTimeout(() => { root.dataset.loading = ""; }, SLOW);
});

document.addEventListener("htmx:finally:request", ({ detail: { ctx } }) => {
  polls.delete(ctx);
  if (ctx.counted) asked -= 1;
  ctx.counted = false;
  if (asked) return;
  clearTimeout(slowTimer);
  slowTimer = 0;
  delete root.dataset.loading;
});
