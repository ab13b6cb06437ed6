// Returns pairs of words that are painted over each other, on the page and in its drawings.
(() => {
  const main = document.querySelector("main");
  const walker = document.createTreeWalker(main, NodeFilter.SHOW_TEXT);
  const texts = [];
  for (let text = walker.nextNode(); text; text = walker.nextNode()) {
    const element = text.parentElement;
    if (!text.textContent.trim() || !element.checkVisibility({visibilityProperty: true})) continue;
    if (element.closest(".hidden")) continue;
    const range = document.createRange();
    range.selectNodeContents(text);
    // What a box that scrolls does not show is under nothing.
    const frame = element.closest(".scroll")?.getBoundingClientRect();
    for (const box of range.getClientRects()) {
      const [left, right] = [Math.max(box.left, frame?.left ?? 0), Math.min(box.right, frame?.right ?? Infinity)];
      // Letters leave room free above and below.
      const [top, bottom] = [box.top + 0.2 * box.height, box.bottom - 0.2 * box.height];
      if (right - left > 2) texts.push({ words: text.textContent.trim().slice(0, 40), left, right, top, bottom });
    }
  }
  const found = [];
  texts.forEach((one, i) => texts.slice(i + 1).forEach(other => {
    const apart = one.right <= other.left + 1 || other.right <= one.left + 1 || one.bottom <= other.top || other.bottom <= one.top;
    if (!apart) found.push(`${one.words} / ${other.words}`);
  }));
  return found;
})()
