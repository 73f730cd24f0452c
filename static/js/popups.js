/* Menus and dialogs: opened with what an answer brings, closed by a click beside them or once their work is done. */
import { all, one } from "./dom.js";
import { isLive, isStep } from "./requests.js";

const closeMenus = (but) => all(".menu[open]").filter((menu) => !menu.contains(but)).forEach((menu) => {
  menu.open = false;
});
const closeDialog = () => one("dialog[open]")?.close();

function isOutside(event, element) {
  const box = element.getBoundingClientRect();
  const { clientX: x, clientY: y } = event;
  return x < box.left || x > box.right || y < box.top || y > box.bottom;
}

document.addEventListener("click", (event) => {
  const { target } = event;
  const close = target.closest("dialog [data-close]");
  if (close) {
    event.preventDefault();
    close.closest("dialog").close();
  } else if (target.matches("dialog") && isOutside(event, target)) {
    target.close();
  }
  closeMenus(target);
});

document.addEventListener("close", ({ target }) => {
  if (target.id === "dialog") target.replaceChildren();
}, true);

document.addEventListener("htmx:before:swap", (event) => {
  const { ctx } = event.detail;
  if (event.defaultPrevented || isLive(ctx) || isStep(ctx)) return;
  if (!ctx.sourceElement.matches("[data-preference]")) closeMenus(null);
});

document.addEventListener("htmx:after:swap", ({ detail: { ctx } }) => {
  const target = typeof ctx.target === "string" ? one(ctx.target) : ctx.target;
  if (target?.id === "dialog" && target.childElementCount && !target.open) {
    target.showModal();
    one("[autofocus]", target)?.focus();
  }
  const posted = ctx.request?.method === "POST" && ctx.response?.status < 300;
  if (posted && target?.id !== "dialog") closeDialog();
});

document.addEventListener("jobs-changed", closeDialog);
