/* Times keep going, in the same words as riverui/web/view/format.py; tests/times.json holds both to them. */
import { all, put, root } from "./dom.js";

// The page's own clock: what the server said at load, so that a wrong clock here does not show.
const SKEW = Date.parse(root.dataset.now) - Date.now() || 0;
const SKEW_TOLERATED = 3000; // milliseconds: a page may be that long on its way
const now = () => Date.now() + (Math.abs(SKEW) > SKEW_TOLERATED ? SKEW : 0);

const AGES = 1000 * 365 * 86400; // seconds above which nobody counts days

const pad = (n, digits = 2) => String(n).padStart(digits, "0");

/** Returns whole seconds in two units: "3 m 20 s". */
function twoUnits(s) {
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} m ${s % 60} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} m`;
  if (s >= AGES) return "over 1,000 years";
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

function oneUnit(s) {
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} m`;
  if (s < 86400) return `${Math.floor(s / 3600)} h`;
  return `${Math.floor(s / 86400)} d`;
}

/** Returns how far an instant is from now: "3 m ago", "in 2 h"; its date from 100 days on. Both in milliseconds. */
export function relative(at, current, fine) {
  const seconds = (at - current) / 1000;
  const whole = Math.floor(Math.abs(seconds));
  if (whole >= 100 * 86400) return new Date(at).toISOString().slice(0, 10);
  if (whole < 1) return "now";
  const text = fine ? twoUnits(whole) : oneUnit(whole);
  return seconds > 0 ? `in ${text}` : `${text} ago`;
}

/** Returns the date and time of an instant in 14 characters, in UTC or in this browser's zone. */
export function clock(at, current, utc) {
  const inZone = (ms) => new Date(utc ? ms : ms - new Date(ms).getTimezoneOffset() * 60000);
  const d = inZone(at);
  const day = `${pad(d.getUTCMonth() + 1)}-${pad(d.getUTCDate())}`;
  const time = `${pad(d.getUTCHours())}:${pad(d.getUTCMinutes())}`;
  return d.getUTCFullYear() === inZone(current).getUTCFullYear()
    ? `${day} ${time}:${pad(d.getUTCSeconds())}`
    : `${pad(d.getUTCFullYear(), 4)}-${day} ${time}`;
}

/** Returns how long ago that was, for what ticks on. */
export const since = (at, current) => twoUnits(Math.max(0, Math.floor((current - at) / 1000)));

/** Writes every time of the page as it is now. */
export function tickTimes() {
  if (document.hidden) return;
  const current = now();
  const mode = root.dataset.time;
  for (const element of all("time[datetime]")) {
    const at = Date.parse(element.dateTime);
    const fine = "fine" in element.dataset;
    put(element, mode === "relative" ? relative(at, current, fine) : clock(at, current, mode === "utc"));
  }
  for (const element of all("[data-since]")) put(element, since(Date.parse(element.dataset.since), current));
}

document.addEventListener("htmx:after:settle", tickTimes);
document.addEventListener("visibilitychange", tickTimes);
tickTimes();
setInterval(tickTimes, 1000);
