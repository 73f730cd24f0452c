/* Searches that no index serves go on by steps, as long as this page asks for the next one. */
"use strict";

(() => {
  let stepping = null; // the request of the step under way
  let began = 0;
  let took = 0;
  let timer = 0;

  const isStep = (ctx) => ctx?.sourceEvent?.type === "step";
  const isLive = (ctx) => /^(live|[a-z]+-changed)$/.test(ctx.sourceEvent?.type ?? "");
  const searching = () => document.querySelector('[data-search="going"], [data-search="waiting"]');

  /** The next step comes after a pause as long as the last step took, so that the database has half the time for others. */
  function goOn() {
    clearTimeout(timer);
    const note = searching();
    if (!note || stepping) return;
    const pause = note.dataset.search === "waiting" ? 1500 : Math.max(250, took);
    timer = setTimeout(() => { if (searching() && !stepping) htmx.trigger(searching(), "step", {}, false); }, pause);
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
    if (isStep(ctx)) stop();
  });
  document.addEventListener("htmx:after:settle", goOn);
  document.addEventListener("click", ({ target }) => {
    if (target.closest("[data-stop]")) stop();
  });

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", goOn);
  else goOn();
})();
