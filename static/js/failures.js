/* Answers that failed: a page that is there stays, and what a person asked for gets a notice. */
import { notify } from "./notices.js";
import { isLive } from "./requests.js";

document.addEventListener("htmx:before:swap", (event) => {
  const { ctx, tasks } = event.detail;
  const status = ctx.response?.status ?? 200;
  if (status < 400 || ctx.hx?.retarget) return;
  const wanted = ctx.select ?? (ctx.target?.id ? `#${CSS.escape(ctx.target.id)}` : "");
  const main = tasks.find((task) => task.type === "main");
  if (wanted && main?.fragment.querySelector(wanted)) return;
  event.preventDefault();
  if (!isLive(ctx)) notify("error", `The server answered ${status}`, "Nothing on this page was changed. Try again.");
});

document.addEventListener("htmx:error", ({ detail: { ctx } }) => {
  if (!ctx || isLive(ctx)) return;
  notify("error", "The server does not answer", "Nothing on this page was changed. Try again.");
});
