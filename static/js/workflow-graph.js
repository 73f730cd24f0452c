/* The graph of a workflow: dragged, sized by ctrl and wheel; a task is selected without a new page. */
import { one } from "./dom.js";

const DRAGGED = 4; // pixels that make it no click

let drag = null; // where the mouse was pressed, less what was scrolled then
let dragged = false; // the click that ends it selects nothing
let seen = ""; // the workflow that is shown
let kept = null; // the size that a person made, and what the server gave

const view = () => one(".wf-canvas");
const graph = () => one(".wf-graph");
const given = () => location.pathname + graph().getAttribute("width") + graph().hasAttribute("data-fit");

function resize(size) {
  const { width, height } = graph().viewBox.baseVal;
  graph().removeAttribute("data-fit");
  graph().setAttribute("width", Math.round(width * size));
  graph().setAttribute("height", Math.round(height * size));
}

/** Scrolls to the selected task, or at first to what is worst. */
function reveal() {
  const look = one(".wf-box.on") ?? (seen !== location.pathname && one(one(".wf-place")?.hash || "_"));
  seen = location.pathname;
  const box = look && look.getBoundingClientRect();
  if (!box) return;
  const frame = view().getBoundingClientRect();
  if (box.left < frame.left || box.right > frame.right) view().scrollLeft += box.x - frame.x - frame.width / 2;
  if (box.top < frame.top || box.bottom > frame.bottom) view().scrollTop += box.y - frame.y - frame.height / 2;
}

document.addEventListener("wheel", (event) => {
  if (!event.ctrlKey || !event.target.closest(".wf-canvas")) return;
  event.preventDefault();
  kept ??= { from: given() };
  let box = graph().getBoundingClientRect();
  const x = (event.x - box.x) / box.width;
  const y = (event.y - box.y) / box.height;
  const size = (box.width / graph().viewBox.baseVal.width) * Math.exp(-event.deltaY / 400);
  resize(kept.size = Math.min(3, Math.max(0.05, size)));
  // What the pointer is at stays there.
  box = graph().getBoundingClientRect();
  view().scrollBy(box.x + x * box.width - event.x, box.y + y * box.height - event.y);
}, { passive: false });

document.addEventListener("pointerdown", ({ target, pointerType, x, y }) => {
  dragged = false;
  const mine = pointerType === "mouse" && target.closest(".wf-canvas");
  drag = mine ? { x: x + mine.scrollLeft, y: y + mine.scrollTop, from: [x, y] } : null;
});
document.addEventListener("pointermove", ({ buttons, x, y }) => {
  if (!drag || buttons !== 1) return;
  dragged ||= Math.hypot(x - drag.from[0], y - drag.from[1]) > DRAGGED;
  if (dragged) view()?.scrollTo(drag.x - x, drag.y - y);
}, { passive: true });
document.addEventListener("dragstart", (event) => {
  if (drag) event.preventDefault();
});
document.addEventListener("click", (event) => {
  const task = event.target.closest(".wf-box");
  if (!task || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  if (dragged) return;
  htmx.ajax("GET", task.getAttribute("href"), { target: "#page", select: "#page", swap: "outerMorph", push: "true" });
});
document.addEventListener("htmx:after:swap", ({ detail: { ctx } }) => {
  if (graph() && kept?.from === given()) resize(kept.size);
  else kept = null;
  if (graph() && ctx.sourceEvent?.type !== "live") reveal();
});
if (graph()) reveal();
