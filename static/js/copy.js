/* Buttons that copy: what an element holds, or what an address answers. */
import { one } from "./dom.js";
import { notify } from "./notices.js";

async function copy(source) {
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
  notify("success", "Copied", "", true);
}

document.addEventListener("click", ({ target }) => {
  const button = target.closest("[data-copy]");
  if (button) copy(button.dataset.copy);
});
