/* The graph of a workflow: dragged, sized by ctrl and wheel; tasks are selected in place. */
import { one } from "./dom.js";

const DRAGGED = 4; // pixels

let drag = null;
let dragged = false;
let seen = "";
let kept = null; // a person's own size

const view = () => one(".wf-canvas");
const graph = () => one(".wf-graph");
const given = () => location.pathname + graph().getAttribute("width") + graph().hasAttribute("data-fit");

function resize(size) {
  const { width, height } = graph().viewBox.baseVal;
  graph().removeAttribute("data-fit");
  graph().setAttribute("width", Math.round(width * size));
  graph().setAttribute("height", Math.round(height * size));
}

/** Scrolls to the selected task, at first to the worst. */
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
  // The pointer's place stays.
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
