// What the theme leaves out for those who use a keyboard or a screen reader: what scrolls can be reached, and the button
// that copies a piece of code is no landmark.
function mend() {
  for (const part of document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset pre > code")) part.tabIndex = 0;
  for (const nav of document.querySelectorAll(".md-code__nav")) nav.setAttribute("role", "none");
}

mend();
new MutationObserver(mend).observe(document.body, { childList: true, subtree: true });
