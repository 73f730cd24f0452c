/* riverui in the browser: live regions, selection, keyboard, suggestions. Every listener sits on the document, so that
   swapped-in parts need no wiring; without this file every page still works. */
"use strict";

(() => {
  const root = document.documentElement;
  const one = (selector, from = document) => from.querySelector(selector);
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const plural = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;

  /* ---- times: the same words as riverui/web/format.py ---- */

  // The page's own clock: what the server said at load, so that a wrong clock here does not show.
  const skew = Date.parse(root.dataset.now) - Date.now() || 0;
  const now = () => Date.now() + (Math.abs(skew) > 3000 ? skew : 0);
  const pad = (n) => String(n).padStart(2, "0");

  function twoUnits(s) {
    if (s < 60) return `${s} s`;
    if (s < 3600) return `${Math.floor(s / 60)} m ${s % 60} s`;
    if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} m`;
    return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
  }

  function oneUnit(s) {
    if (s < 60) return `${s} s`;
    if (s < 3600) return `${Math.floor(s / 60)} m`;
    if (s < 86400) return `${Math.floor(s / 3600)} h`;
    return `${Math.floor(s / 86400)} d`;
  }

  function relative(at, fine) {
    const seconds = (at - now()) / 1000;
    const whole = Math.floor(Math.abs(seconds));
    if (whole >= 100 * 86400) return new Date(at).toISOString().slice(0, 10);
    if (whole < 1) return "now";
    const text = fine ? twoUnits(whole) : oneUnit(whole);
    return seconds > 0 ? `in ${text}` : `${text} ago`;
  }

  function clock(at, utc) {
    const d = new Date(utc ? at : at - new Date(at).getTimezoneOffset() * 60000);
    const day = `${pad(d.getUTCMonth() + 1)}-${pad(d.getUTCDate())}`;
    const time = `${pad(d.getUTCHours())}:${pad(d.getUTCMinutes())}`;
    return d.getUTCFullYear() === new Date(now()).getUTCFullYear()
      ? `${day} ${time}:${pad(d.getUTCSeconds())}`
      : `${d.getUTCFullYear()}-${day} ${time}`;
  }

  function put(element, text) {
    if (element.textContent !== text) element.textContent = text;
  }

  function tickTimes() {
    if (document.hidden) return;
    const mode = root.dataset.time;
    for (const element of all("time[datetime]")) {
      const at = Date.parse(element.dateTime);
      put(element, mode === "relative" ? relative(at, "fine" in element.dataset) : clock(at, mode === "utc"));
    }
    for (const element of all("[data-since]")) {
      put(element, twoUnits(Math.max(0, Math.floor((now() - Date.parse(element.dataset.since)) / 1000))));
    }
  }

  /* ---- notices ---- */

  function notify(level, title, detail = "") {
    const box = document.createElement("div");
    box.className = `notice n-${level}`;
    box.dataset.notice = level;
    const words = document.createElement("div");
    const strong = document.createElement("strong");
    strong.textContent = title;
    words.append(strong);
    if (detail) {
      const more = document.createElement("p");
      more.textContent = detail;
      words.append(more);
    }
    const close = document.createElement("button");
    close.type = "button";
    close.className = "quiet small";
    close.dataset.dismiss = "";
    close.setAttribute("aria-label", "Dismiss");
    close.textContent = "×";
    box.append(words, close);
    one("#notices")?.append(box);
    ageNotices();
  }

  function ageNotices() {
    const notices = all("#notices .notice");
    notices.slice(0, -4).forEach((notice) => notice.remove());
    for (const notice of notices) {
      if (notice.dataset.aging || !/info|success/.test(notice.dataset.notice)) continue;
      notice.dataset.aging = "1";
      const leave = () => (notice.matches(":hover, :focus-within") ? setTimeout(leave, 2000) : notice.remove());
      setTimeout(leave, notice.dataset.short ? 2500 : 8000);
    }
  }

  /* ---- live regions ---- */

  const running = new Set(); // live requests
  let busy = 0; // other requests
  let failing = "";
  let applyNext = false;
  let timer = 0;
  let loadingTimer = 0;
  let atEnd = []; // logs scrolled to their end, which is to stay in sight

  const ticked = () => all('#jobs-list input[name="ids"]:checked');
  const isLive = (ctx) => /^(live|[a-z]+-changed)$/.test(ctx.sourceEvent?.type ?? "");

  function typing() {
    const field = document.activeElement;
    return field?.matches?.("input:not([type]), input[type=text], textarea") && field.value !== field.defaultValue;
  }

  /** Why nothing is fetched just now; empty when live. */
  function held() {
    if (document.hidden) return "this tab is hidden";
    if (one("dialog[open]")) return "a dialog is open";
    if (one(".menu[open]")) return "a menu is open";
    if (typing()) return "you are typing";
    if (busy) return "a request is in progress";
    if (one("[data-search]")) return searching() ? "a search is in progress" : "these are search results: press . to search again";
    return "";
  }

  /** Why rows keep their places though they are refreshed. */
  function frozen() {
    const count = ticked().length;
    if (count) return `${plural(count, "job")} selected: rows keep their places, new ones wait`;
    if (one("#jobs-list") && scrollY > 60) return "you are reading further down: new rows wait";
    return "";
  }

  /** Seconds between refreshes, 0 for none; an operation under way shows its progress whatever was chosen. */
  const pace = () => (one('#operation[data-final="0"]') ? 1 : Number(root.dataset.live));

  function paintLive(beat) {
    const dot = one("[data-live-dot]");
    if (!dot) return;
    const seconds = pace();
    const final = !all("[data-region]").some((region) => region.dataset.final !== "1");
    const why = held();
    const places = frozen();
    const state = !seconds ? "off" : failing ? "failing" : why || places ? "held" : "live";
    const words = !seconds ? "Live updates are off."
      : failing ? `Refresh failed: ${failing}. Trying again.`
      : why ? `Held: ${why}.`
      : places ? `Held: ${places}.`
      : final ? "Nothing on this page will change any more."
      : `Live: refreshes every ${seconds} s.`;
    dot.dataset.liveDot = state;
    if (beat && state === "live") {
      delete dot.dataset.beat;
      requestAnimationFrame(() => { dot.dataset.beat = ""; });
    }
    put(one("[data-live-text]"), !seconds ? "Off" : state === "held" ? "Held" : state === "failing" ? "Lost" : `${seconds} s`);
    put(one("[data-live-why]"), words);
    dot.closest("summary").title = words;
  }

  function refresh(force) {
    if (!force && held()) return;
    for (const region of all("[data-region]")) {
      if (!force && region.dataset.final === "1") continue;
      if ([...running].some((ctx) => ctx.sourceElement === region)) continue;
      htmx.trigger(region, "live", {}, false);
    }
  }

  function loop() {
    clearTimeout(timer);
    const seconds = pace();
    if (seconds) refresh(false);
    paintLive(false);
    timer = setTimeout(loop, (seconds || 5) * 1000);
  }

  /** Keeps the rows that are shown in their places: known rows take their new content, new rows only get counted. */
  function keepPlaces(fragment, list) {
    const table = one("table.job-table", fragment);
    const shown = all("tbody.job", list);
    if (!shown.length) return true;
    if (!table) return false;
    const fresh = new Map(all("tbody.job", table).map((row) => [row.id, row]));
    for (const row of fresh.values()) row.remove();
    for (const row of shown) {
      const next = fresh.get(row.id) ?? row.cloneNode(true);
      if (!fresh.has(row.id)) next.dataset.gone = "";
      fresh.delete(row.id);
      table.append(next);
    }
    offerNew(one("#jobs-list", fragment)?.dataset.first === "1" ? fresh.size : 0);
    return true;
  }

  function offerNew(count) {
    const pill = one("[data-new-rows]");
    if (!pill) return;
    pill.hidden = !count;
    put(pill, `${count} new`);
  }

  // Searches go on by steps of their own: searches.js.
  const isStep = (ctx) => ctx.sourceEvent?.type === "step";
  const searching = () => one('[data-search="going"], [data-search="waiting"]');

  document.addEventListener("htmx:before:request", ({ detail: { ctx } }) => {
    if (isLive(ctx)) {
      running.add(ctx);
      return;
    }
    if (isStep(ctx)) return;
    // What a person asked for goes first, and no late answer to a poll may undo it.
    for (const live of running) live.request.abort();
    busy += 1;
    ctx.counted = true;
    loadingTimer ||= setTimeout(() => { root.dataset.loading = ""; }, 300);
    paintLive(false);
  });

  document.addEventListener("htmx:finally:request", ({ detail: { ctx } }) => {
    running.delete(ctx);
    if (ctx.counted) busy -= 1;
    ctx.counted = false;
    if (!busy) {
      clearTimeout(loadingTimer);
      loadingTimer = 0;
      delete root.dataset.loading;
      if (stepLater) openRow(stepLater);
      stepLater = 0;
    }
    paintLive(false);
  });

  document.addEventListener("htmx:before:swap", (event) => {
    const { ctx, tasks } = event.detail;
    const status = ctx.response?.status ?? 200;
    const main = tasks.find((task) => task.type === "main");
    const live = isLive(ctx);
    // What is not there any more is not asked for again, and that much earns a notice.
    const gone = live && status === 404 && ctx.hx?.retarget;
    if (gone) ctx.sourceElement.dataset.final = "1";
    if (live) atEnd = all("pre.log").filter((log) => log.scrollTop > 0 && log.scrollHeight - log.scrollTop - log.clientHeight < 4);
    if (live) failing = status >= 400 && !gone ? `the server answered ${status}` : "";
    if (status >= 400 && !ctx.hx?.retarget) {
      const wanted = ctx.select ?? (ctx.target?.id ? `#${CSS.escape(ctx.target.id)}` : "");
      const fits = wanted && main?.fragment.querySelector(wanted);
      if (!fits) {
        event.preventDefault();
        if (!live) notify("error", `The server answered ${status}`, "Nothing on this page was changed. Try again.");
        return;
      }
    }
    // Any other poll that fails says so at the dot.
    if (live && !gone && ctx.hx?.retarget) {
      event.preventDefault();
      return;
    }
    if (ctx.sourceElement.matches("[data-preference]")) return;
    if (isStep(ctx)) return;
    if (!live) {
      all(".menu[open]").forEach((menu) => { menu.open = false; });
      if (main?.target?.id === "page") offerNew(0);
    } else if (ctx.sourceElement.id === "jobs-list" && ctx.sourceEvent.type === "live") {
      if (frozen() && !applyNext) {
        if (!keepPlaces(main.fragment, ctx.sourceElement)) event.preventDefault();
      } else {
        applyNext = false;
        offerNew(0);
      }
    }
  });

  document.addEventListener("htmx:error", ({ detail: { ctx } }) => {
    if (!ctx) return;
    if (isLive(ctx)) failing = "the server does not answer";
    else notify("error", "The server does not answer", "Nothing on this page was changed. Try again.");
    paintLive(false);
  });

  document.addEventListener("htmx:after:settle", () => {
    for (const log of atEnd) log.scrollTop = log.scrollHeight;
    tickTimes();
    paintSelection();
    ageNotices();
  });

  document.addEventListener("htmx:after:swap", ({ detail: { ctx } }) => {
    const target = typeof ctx.target === "string" ? one(ctx.target) : ctx.target;
    if (target?.id === "dialog" && target.childElementCount && !target.open) {
      target.showModal();
      one("[autofocus]", target)?.focus();
    }
    const posted = ctx.request?.method === "POST" && ctx.response?.status < 300;
    if (posted && target?.id !== "dialog") one("dialog[open]")?.close();
    if (isLive(ctx)) paintLive(true);
  });

  // What the browser holds is not the server's to take back: opened details, the live dot, the selection bar.
  const OURS = { DETAILS: ["open"], DIALOG: ["open"], INPUT: ["aria-expanded", "aria-activedescendant"] };
  htmx.registerExtension("riverui", {
    htmx_before_morph_attr: (element, { attrName }) =>
      !(OURS[element.tagName]?.includes(attrName)
        || attrName === "data-all" || attrName.startsWith("data-live-") || attrName === "data-beat"
        || (attrName === "hidden" && element.matches("[data-new-rows], #suggestions"))),
  });

  document.addEventListener("jobs-changed", () => {
    unselect();
    one("dialog[open]")?.close();
  });

  /* ---- selection ---- */

  let anchor = "";

  const boxOf = (row) => one('input[name="ids"]', row);
  const rows = () => all("#jobs-list tbody.job");

  function paintSelection() {
    const boxes = all('#jobs-list input[name="ids"]');
    const count = ticked().length;
    const head = one("[data-check-all]");
    if (head) {
      head.checked = count > 0 && count === boxes.length;
      head.indeterminate = count > 0 && count < boxes.length;
    }
    const words = one("[data-selected]");
    if (words) put(words, `${plural(count, "job")} selected`);
    const bar = one("[data-bulk]");
    if (bar && count < boxes.length) bar.removeAttribute("data-all");
    const more = one("[data-all-matching]");
    if (more) more.hidden = count < boxes.length;
    if (!count && scrollY <= 60) offerNew(0);
    paintLive(false);
  }

  function select(row, on) {
    const box = row && boxOf(row);
    if (box) box.checked = on;
  }

  function selectTo(row, on) {
    const list = rows();
    const from = list.findIndex((other) => other.id === anchor);
    const to = list.indexOf(row);
    const [low, high] = from < 0 ? [to, to] : [Math.min(from, to), Math.max(from, to)];
    list.slice(low, high + 1).forEach((other) => select(other, on));
    paintSelection();
  }

  /** The bar that comes up with the first ticked row must not lie on that row. */
  const clearOfBar = (row) => { if (boxOf(row).checked) row.scrollIntoView({ block: "nearest" }); };

  function unselect() {
    all('#jobs-list input[name="ids"]').forEach((box) => { box.checked = false; });
    one("[data-bulk]")?.removeAttribute("data-all");
    anchor = "";
    paintSelection();
  }

  document.addEventListener("change", ({ target }) => {
    if (target.matches("[data-check-all]")) {
      rows().forEach((row) => select(row, target.checked));
      paintSelection();
    } else if (target.matches('input[name="ids"]')) {
      paintSelection();
      clearOfBar(target.closest("tbody"));
    } else if (target.closest("[data-autosubmit]")) {
      target.form.requestSubmit();
    }
  });

  document.addEventListener("click", (event) => {
    const target = event.target;
    const row = target.closest("tbody.job");
    if (row && event.shiftKey && !target.closest("a")) {
      // The click on a label is followed by one on its box: only the one on the box counts.
      if (target.closest("label") && !target.matches("input")) return;
      const box = boxOf(row);
      selectTo(row, target === box ? box.checked : true);
      anchor = row.id;
      getSelection()?.removeAllRanges();
      return;
    }
    if (row && target.matches('input[name="ids"]')) anchor = row.id;

    if (target.closest("[data-dismiss]")) target.closest(".notice").remove();
    if (target.closest("[data-unselect]")) {
      event.preventDefault();
      unselect();
    }
    if (target.closest("[data-all-matching]")) {
      one("[data-bulk]").dataset.all = "";
      one("[data-bulk] a.bulk-all")?.focus();
    }
    if (target.closest("[data-new-rows]")) {
      applyNext = true;
      scrollTo({ top: 0 });
      offerNew(0);
      refresh(true);
    }
    const close = target.closest("dialog [data-close]");
    if (close) {
      event.preventDefault();
      close.closest("dialog").close();
    } else if (target.matches?.("dialog")) {
      const box = target.getBoundingClientRect();
      const inside = event.clientX >= box.left && event.clientX <= box.right && event.clientY >= box.top && event.clientY <= box.bottom;
      if (!inside) target.close();
    }
    const copied = target.closest("[data-copy]");
    if (copied) copy(copied);
    all(".menu[open]").filter((menu) => !menu.contains(target)).forEach((menu) => { menu.open = false; });
    if (!target.closest(".search")) hideSuggestions();
  });

  document.addEventListener("close", (event) => {
    if (event.target.matches("dialog")) {
      event.target.replaceChildren();
      paintLive(false);
    }
  }, true);
  document.addEventListener("toggle", () => paintLive(false), true);

  /* ---- copy ---- */

  async function copy(button) {
    const source = button.dataset.copy;
    let text = "";
    try {
      text = source.startsWith("#") ? one(source).textContent : await (await fetch(source)).text();
      await navigator.clipboard.writeText(text);
    } catch {
      // Without a secure context there is no clipboard: the old way.
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    notify("success", "Copied");
    one("#notices .notice:last-child").dataset.short = "1";
  }

  /* ---- preferences ---- */

  document.addEventListener("submit", (event) => {
    const name = event.target.dataset.preference;
    if (!name) return;
    const value = event.submitter?.value ?? "";
    for (const button of all(`[data-preference="${name}"] .choice`)) {
      button.setAttribute("aria-pressed", String(button.value === value));
    }
    if (name in root.dataset) root.dataset[name] = value;
    if (name === "time") tickTimes();
    if (name === "live") loop();
  });

  document.addEventListener("htmx:after:request", ({ detail: { ctx } }) => {
    const name = ctx.sourceElement?.dataset?.preference;
    if (name !== "show_args" && name !== "limit") return;
    const page = one(".page-jobs");
    if (page) htmx.ajax("GET", location.pathname + location.search, { target: "#page", select: "#page", swap: "outerMorph" });
  });

  /* ---- suggestions ---- */

  const cache = new Map();
  let asking = null;
  let expected = false; // suggestions that are on their way
  let suggestTimer = 0;

  const listOf = () => one("#suggestions");
  const options = () => all('#suggestions [role="option"]');
  const chosen = () => one('#suggestions [aria-selected="true"]');

  function hideSuggestions() {
    asking?.abort();
    clearTimeout(suggestTimer);
    expected = false;
    const list = listOf();
    if (!list) return;
    list.hidden = true;
    const field = one("#q");
    field.setAttribute("aria-expanded", "false");
    field.removeAttribute("aria-activedescendant");
  }

  function askSuggestions(wait) {
    clearTimeout(suggestTimer);
    expected = true;
    suggestTimer = setTimeout(async () => {
      const field = one("#q");
      const form = field?.closest("[data-suggest]");
      if (!form || document.activeElement !== field) return;
      const key = new URLSearchParams({ q: field.value, at: String(field.selectionStart ?? field.value.length) }).toString();
      asking?.abort();
      if (!cache.has(key)) {
        asking = new AbortController();
        try {
          const answer = await fetch(`${form.dataset.suggest}?${key}`, { headers: { "HX-Request": "true" }, signal: asking.signal });
          if (!answer.ok) return;
          cache.set(key, await answer.text());
          if (cache.size > 100) cache.delete(cache.keys().next().value);
        } catch {
          return; // typed on, or the server is away: no suggestions is no harm
        }
      }
      if (document.activeElement !== field) return;
      expected = false;
      listOf().innerHTML = cache.get(key);
      const some = options().length > 0;
      listOf().hidden = !some;
      field.setAttribute("aria-expanded", String(some));
      field.removeAttribute("aria-activedescendant");
    }, wait);
  }

  function choose(step) {
    const list = options();
    if (!list.length) return;
    const at = list.indexOf(chosen());
    const next = list[(at + step + list.length + (at < 0 && step < 0 ? 1 : 0)) % list.length];
    list.forEach((option) => option.setAttribute("aria-selected", String(option === next)));
    one("#q").setAttribute("aria-activedescendant", next.id);
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

  document.addEventListener("input", ({ target }) => {
    if (target.id === "q") askSuggestions(150);
  });
  document.addEventListener("focusin", ({ target }) => {
    if (target.id === "q" && target.closest("[data-suggest]")) askSuggestions(150);
    else if (!target.closest(".search")) hideSuggestions();
  });
  document.addEventListener("mousedown", (event) => {
    const option = event.target.closest('#suggestions [role="option"]');
    if (!option) return;
    event.preventDefault();
    take(option);
  });

  function suggestionKey(event) {
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

  /* ---- keyboard ---- */

  let goUntil = 0;
  let stepLater = 0; // a step in a list that is just being fetched

  function openRow(step) {
    if (busy) {
      stepLater = step;
      return;
    }
    const links = all("main [data-open]");
    if (!links.length) return;
    const here = document.activeElement?.closest?.("tbody.job, tr")?.querySelector("[data-open]");
    const at = links.indexOf(here);
    links[Math.max(0, Math.min(links.length - 1, at < 0 ? 0 : at + step))].focus();
  }

  /** Presses the button of the verb that has this key. */
  function act(key) {
    const here = document.activeElement?.closest?.("tbody.job");
    if (one("#jobs-list") && !ticked().length && here) {
      select(here, true);
      anchor = here.id;
      paintSelection();
    }
    const every = one("[data-bulk][data-all]") ? "a" : "button";
    const button = one("#jobs-list") ? ticked().length && one(`[data-bulk] ${every}[data-key="${key}"]`) : one(`#job [data-key="${key}"]`);
    if (button) button.click();
  }

  function back() {
    const menu = one(".menu[open]");
    if (menu) {
      menu.open = false;
      one("summary", menu).focus();
    } else if (ticked().length) unselect();
    else if (document.activeElement?.closest?.("main") && document.activeElement !== one("main")) document.activeElement.blur();
    else one("a.back")?.click();
  }

  const KEYS = {
    "/": () => { const field = one("#q"); field?.focus(); field?.select(); },
    "j": () => openRow(1),
    "k": () => openRow(-1),
    "x": () => {
      const row = document.activeElement?.closest?.("tbody.job");
      if (!row) return;
      select(row, !boxOf(row).checked);
      anchor = row.id;
      paintSelection();
      clearOfBar(row);
    },
    "X": () => {
      const row = document.activeElement?.closest?.("tbody.job");
      if (row) selectTo(row, true);
    },
    "a": () => {
      const every = ticked().length === rows().length;
      rows().forEach((row) => select(row, !every));
      paintSelection();
    },
    "g": () => { goUntil = Date.now() + 1200; },
    ".": () => { applyNext = true; refresh(true); },
    "?": () => one('.rail [data-section="help"]')?.click(),
    "Escape": back,
  };

  document.addEventListener("keydown", (event) => {
    stepLater = 0;
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.target.id === "q") return suggestionKey(event);
    if (event.target.matches("input:not([type=checkbox]), textarea, select")) {
      if (event.key === "Escape") back();
      return;
    }
    if (one("dialog[open]")) return;
    if (Date.now() < goUntil && (event.key === "j" || event.key === "q")) {
      goUntil = 0;
      event.preventDefault();
      one(`.rail [data-section="${event.key === "j" ? "jobs" : "queues"}"]`)?.click();
      return;
    }
    const verb = /^[a-z]$/.test(event.key) && one(`[data-key="${event.key}"]`);
    const action = KEYS[event.key] ?? (verb && (() => act(event.key)));
    if (!action) return;
    event.preventDefault();
    action();
  });

  /* ---- start ---- */

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return paintLive(false);
    tickTimes();
    loop();
  });
  addEventListener("scroll", () => {
    if (scrollY <= 60 && !one("[data-new-rows]")?.hidden) offerNew(0);
    paintLive(false);
  }, { passive: true });

  function start() {
    tickTimes();
    paintSelection();
    ageNotices();
    // What happens now is at the end of a job's timeline.
    for (const line of all(".timeline")) line.scrollLeft = line.scrollWidth;
    setInterval(tickTimes, 1000);
    timer = setTimeout(loop, Math.max(pace(), 1) * 1000);
  }
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
