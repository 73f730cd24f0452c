/* Searches that no index serves go on by steps, as long as this page asks for the next one. */
import { one } from "./dom.js";
import { isLive, isStep } from "./requests.js";

const PAUSE_LEAST = 250; // milliseconds between two steps
const PAUSE_WAITING = 1500; // between two questions whether another search has ended

let stepping = null; // the request of the step under way
let began = 0;
let took = 0; // milliseconds of the last step
let stepTimer = 0;

/** Returns the note of a search that goes on, if there is one. */
export const searching = () => one('[data-search="going"], [data-search="waiting"]');

/** Asks for the next step after a pause as long as the last step took, so that the database has half the time
    for others. */
function goOn() {
  clearTimeout(stepTimer);
  const note = searching();
  if (!note || stepping) return;
  const pause = note.dataset.search === "waiting" ? PAUSE_WAITING : Math.max(PAUSE_LEAST, took);
  stepTimer = setTimeout(() => { if (searching() && !stepping) htmx.trigger(searching(), "step", {}, false); }, pause);
}

function stop() {
  const note = searching();
  if (note) note.dataset.search = "stopped";
  stepping?.request.abort();
}

document.addEventListener("htmx:before:request", ({ detail: { ctx } }) => {
  if (isStep(ctx)) {
    stepping = ctx;
    began = performance.now();
  } else if (!isLive(ctx)) {
    // What a person asked for goes first.
    stepping?.request.abort();
  }
});
document.addEventListener("htmx:finally:request", ({ detail: { ctx } }) => {
  if (ctx === stepping) {
    stepping = null;
    took = performance.now() - began;
  }
  goOn();
});
document.addEventListener("htmx:before:swap", ({ detail: { ctx } }) => {
  if (isStep(ctx) && (ctx.response?.status ?? 200) >= 400) stop();
});
document.addEventListener("htmx:error", ({ detail: { ctx } }) => {
  if (ctx && isStep(ctx)) stop();
});
document.addEventListener("htmx:after:settle", goOn);
document.addEventListener("click", ({ target }) => {
  if (target.closest("[data-stop]")) stop();
});
goOn();
