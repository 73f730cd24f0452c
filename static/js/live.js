/* Live regions fetch themselves again on a beat, hold while somebody works with the page, and say so at the dot. */
import { all, one, plural, put, root } from "./dom.js";
import { isScrolled, keepPlaces, offerNew, ticked } from "./job-rows.js";
import { isBusy, isLive, isPolling, isStep } from "./requests.js";
import { searching } from "./search-steps.js";
import { forgetShown, nameOf, noteShown } from "./shown.js";
import { titleOf, tellStale } from "./stale.js";
import { tellStandby } from "./standby.js";
// Its listener comes first: what it prevents is not looked at here.
import "./failures.js";

const SHARED = 0.95; // of the seconds between two refreshes: how old that may be which all who look on are given
const BEAT_OFF = 5; // seconds until it is looked again whether updates were switched on

let failing = ""; // why the last refresh failed
let applyNext = false; // the next refresh brings new rows, whatever is ticked
let forcing = false; // a person asks for what is new, not for what all who look on are given
let freshAt = performance.now(); // since when this page shows what it read for itself
let restsUntil = 0; // the server asked for a pause until then, in milliseconds of performance.now()
let liveTimer = 0;

function isTyping() {
  const field = document.activeElement;
  return field?.matches?.("input:not([type]), input[type=text], textarea") && field.value !== field.defaultValue;
}

/** Returns why nothing is fetched just now; empty when live. */
function whyHeld() {
  if (document.hidden) return "this tab is hidden";
  if (one("dialog[open]")) return "a dialog is open";
  if (one(".menu[open]")) return "a menu is open";
  if (isTyping()) return "you are typing";
  if (isBusy()) return "a request is in progress";
  if (!one("[data-search]")) return "";
  return searching() ? "a search is in progress" : "these are search results: press . to search again";
}

/** Returns why rows keep their places though they are refreshed; empty when they do not. */
function whyRowsStay() {
  const count = ticked().length;
  if (count) return `${plural(count, "job")} selected: rows keep their places, new ones wait`;
  if (one("#jobs-list") && isScrolled()) return "you are reading further down: new rows wait";
  return "";
}

/** Returns the seconds between refreshes, 0 for none; an operation under way shows its progress whatever was chosen. */
const refreshSeconds = () => (one('#operation[data-final="0"]') ? 1 : Number(root.dataset.live));

function liveWords(seconds, held, stay) {
  if (!seconds) return "Live updates are off.";
  if (failing) return `Refresh failed. ${failing}. Trying again.`;
  if (held || stay) return `Held: ${held || stay}.`;
  if (all("[data-region]").every((region) => region.dataset.final === "1")) {
    return "Nothing on this page will change any more.";
  }
  return `Live: refreshes every ${seconds} s.`;
}

/** Says at the dot whether the page is live, and why it is not; with a beat where something was just fetched. */
export function paintLive(beat = false) {
  const dot = one("[data-live-dot]");
  if (!dot) return;
  const seconds = refreshSeconds();
  const held = whyHeld();
  const stay = whyRowsStay();
  const state = !seconds ? "off" : failing ? "failing" : held || stay ? "held" : "live";
  dot.dataset.liveDot = state;
  if (beat && state === "live") {
    delete dot.dataset.beat;
    requestAnimationFrame(() => { dot.dataset.beat = ""; });
  }
  put(one("[data-live-text]"), { off: "Off", failing: "Lost", held: "Held", live: `${seconds} s` }[state]);
  const words = liveWords(seconds, held, stay);
  put(one("[data-live-why]"), words);
  dot.closest("summary").title = words;
}

function refresh(force) {
  if (!force && (whyHeld() || performance.now() < restsUntil)) return;
  forcing = force;
  for (const region of all("[data-region]")) {
    if (!force && region.dataset.final === "1") continue;
    if (!isPolling(region)) htmx.trigger(region, "live", {}, false);
  }
  forcing = false;
}

/** Refreshes now, with new rows whatever is ticked or read. */
export function refreshNow() {
  applyNext = true;
  refresh(true);
}

/** Refreshes, and again and again, by what the person chose. */
export function keepRefreshing() {
  clearTimeout(liveTimer);
  const seconds = refreshSeconds();
  if (seconds) refresh(false);
  paintLive();
  liveTimer = setTimeout(keepRefreshing, (seconds || BEAT_OFF) * 1000);
}

document.addEventListener("htmx:config:request", ({ detail: { ctx } }) => {
  if (ctx.sourceEvent?.type !== "live" || forcing || ctx.target !== ctx.sourceElement) return;
  const seconds = refreshSeconds();
  // What all are given may be older than what this page has just read.
  if (!seconds || performance.now() - freshAt < seconds * SHARED * 1000) return;
  ctx.request.headers["Riverui-Live"] = String(seconds);
  const name = nameOf(ctx.sourceElement, Boolean(whyRowsStay()));
  if (name) ctx.request.headers["If-None-Match"] = name;
});
document.addEventListener("htmx:before:request", ({ detail: { ctx } }) => {
  if (!isLive(ctx) && !isStep(ctx)) paintLive();
});
document.addEventListener("htmx:finally:request", () => paintLive());

document.addEventListener("htmx:before:swap", (event) => {
  const { ctx, tasks } = event.detail;
  const main = tasks.find((task) => task.type === "main");
  if (!isLive(ctx)) {
    const isPage = main?.target?.id === "page" && !isStep(ctx) && !ctx.sourceElement.matches("[data-preference]");
    if (isPage && !event.defaultPrevented) offerNew(0);
    return;
  }
  const status = ctx.response?.status ?? 200;
  tellStandby(ctx.response?.headers.get("Riverui-Standby"));
  // A server with much to do asks for a pause, whether it answers or not.
  const pause = Number(ctx.response?.headers.get("Retry-After"));
  restsUntil = pause ? performance.now() + pause * 1000 : 0;
  if (status === 304) {
    failing = "";
    tellStale(ctx.sourceElement, "");
    return;
  }
  // What is not there any more is not asked for again, and that much earns a notice.
  const gone = status === 404 && ctx.hx?.retarget;
  if (gone) ctx.sourceElement.dataset.final = "1";
  failing = status >= 400 && !gone ? titleOf(main?.fragment) || `The server answered ${status}` : "";
  if (event.defaultPrevented) return;
  // Any other poll that fails says so at the dot.
  if (!gone && ctx.hx?.retarget) {
    event.preventDefault();
    tellStale(ctx.sourceElement, failing);
  } else if (ctx.sourceElement.id === "jobs-list" && ctx.sourceEvent.type === "live") {
    if (whyRowsStay() && !applyNext) {
      ctx.rowsKept = keepPlaces(main.fragment, ctx.sourceElement);
      if (!ctx.rowsKept) event.preventDefault();
    } else {
      applyNext = false;
      offerNew(0);
    }
  }
});

document.addEventListener("htmx:after:swap", ({ detail: { ctx } }) => {
  if (!ctx.request.headers["Riverui-Live"]) freshAt = performance.now();
  if (!isLive(ctx)) {
    forgetShown();
    return;
  }
  if (ctx.response?.status === 200) {
    noteShown(ctx.sourceElement, ctx.response.headers.get("ETag"), Boolean(ctx.rowsKept));
  }
  paintLive(true);
});

document.addEventListener("htmx:error", ({ detail: { ctx } }) => {
  if (!ctx) return;
  if (isLive(ctx)) {
    failing = "The server does not answer";
    tellStale(ctx.sourceElement, failing);
  }
  paintLive();
});

document.addEventListener("click", ({ target }) => {
  if (!target.closest("[data-new-rows]")) return;
  scrollTo({ top: 0 });
  offerNew(0);
  refreshNow();
});
document.addEventListener("close", () => paintLive(), true);
document.addEventListener("toggle", () => paintLive(), true);
document.addEventListener("visibilitychange", () => (document.hidden ? paintLive() : keepRefreshing()));
addEventListener("scroll", () => {
  if (!isScrolled() && !one("[data-new-rows]")?.hidden) offerNew(0);
  paintLive();
}, { passive: true });

liveTimer = setTimeout(keepRefreshing, Math.max(refreshSeconds(), 1) * 1000);
