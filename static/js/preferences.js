/* Preferences take effect at once; the server keeps them. */
import { all, one, root } from "./dom.js";
import { keepRefreshing } from "./live.js";
import { tickTimes } from "./times.js";

document.addEventListener("submit", (event) => {
  const name = event.target.dataset.preference;
  if (!name) return;
  const value = event.submitter?.value ?? "";
  for (const button of all(`[data-preference="${name}"] .choice`)) {
    button.setAttribute("aria-pressed", String(button.value === value));
  }
  if (name in root.dataset) root.dataset[name] = value;
  if (name === "time") tickTimes();
  if (name === "live") keepRefreshing();
});

document.addEventListener("change", ({ target }) => {
  if (target.closest("[data-autosubmit]")) target.form.requestSubmit();
});

// What the list shows of each job is drawn by the server.
document.addEventListener("htmx:after:request", ({ detail: { ctx } }) => {
  const name = ctx.sourceElement?.dataset?.preference;
  if ((name !== "show_args" && name !== "limit") || !one(".page-jobs")) return;
  const here = location.pathname + location.search;
  htmx.ajax("GET", here, { target: "#page", select: "#page", swap: "outerMorph" });
});
