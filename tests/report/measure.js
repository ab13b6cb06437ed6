// Returns what is wrong with a page as it is shown: texts that overlap or are cut, narrow plots, and a page wider than the screen.
(() => {
  const found = [];
  const words = element => element.textContent.trim().slice(0, 40);

  // Corners of a text in the window, its box made smaller by what letters leave free above and below.
  function corners(text) {
    const box = text.getBBox();
    const matrix = text.getScreenCTM();
    const [left, right] = [box.x + 1, box.x + box.width - 1];
    const [top, bottom] = [box.y + 0.2 * box.height, box.y + 0.82 * box.height];
    return [[left, top], [right, top], [right, bottom], [left, bottom]].map(([x, y]) => new DOMPoint(x, y).matrixTransform(matrix));
  }
  // Two convex shapes are apart if a side of one has all of the other beyond it.
  function apart(one, other) {
    return [one, other].some(shape => shape.some((corner, i) => {
      const next = shape[(i + 1) % shape.length];
      const normal = [next.y - corner.y, corner.x - next.x];
      const range = points => points.map(p => p.x * normal[0] + p.y * normal[1]);
      return Math.max(...range(one)) <= Math.min(...range(other)) || Math.max(...range(other)) <= Math.min(...range(one));
    }));
  }
  for (const plot of document.querySelectorAll(".js-plotly-plot")) {
    const frame = plot.getBoundingClientRect();
    const texts = [...plot.querySelectorAll(".main-svg text")].filter(text => words(text) && text.checkVisibility() && !text.closest(".hoverlayer"));
    const shapes = texts.map(corners);
    shapes.forEach((shape, i) => {
      if (shape.some(({x}) => x < frame.left - 2 || x > frame.right + 2)) found.push(`${plot.id}: cut: ${words(texts[i])}`);
      for (let j = 0; j < i; j += 1) {
        if (!apart(shape, shapes[j])) found.push(`${plot.id}: overlap: ${words(texts[i])} / ${words(texts[j])}`);
      }
    });
    for (const key of Object.keys(plot._fullLayout).filter(key => /^xaxis\d*$/.test(key))) {
      const room = plot._fullLayout[key]._length;
      if (document.documentElement.clientWidth <= 640 && room < 180) found.push(`${plot.id}: plot of ${room.toFixed()} px`);
    }
  }
  for (const cell of document.querySelectorAll("td, th")) {
    if (!cell.checkVisibility()) continue;
    const range = document.createRange();
    range.selectNodeContents(cell);
    const [inner, outer] = [range.getBoundingClientRect(), cell.getBoundingClientRect()];
    if (inner.width && (inner.left < outer.left - 1 || inner.right > outer.right + 1)) found.push(`beyond its cell: ${words(cell)}`);
  }
  for (const box of document.querySelectorAll(".scroll, .chips")) {
    if (box.checkVisibility() && box.scrollWidth > box.clientWidth + 1 && !box.classList.contains("more-right")) found.push(`no hint that more is right of: ${words(box)}`);
  }
  // Words against what lies behind them (WCAG 2.2, 1.4.3): 4.5, or 3 where they are large.
  const parsed = color => {
    const [r, g, b, a = 1] = color.match(/[\d.]+/g).map(Number);
    return [r, g, b, a];
  };
  const over = (front, back) => [0, 1, 2].map(i => front[3] * front[i] + (1 - front[3]) * back[i]);
  const luminance = color => color.map(value => value / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = element => !element ? [255, 255, 255]
    : over(parsed(getComputedStyle(element).backgroundColor), behind(element.parentElement));
  const walker = document.createTreeWalker(document.querySelector("main") ?? document.body, NodeFilter.SHOW_TEXT);
  for (let text = walker.nextNode(); text; text = walker.nextNode()) {
    const element = text.parentElement;
    if (!text.data.trim() || element.closest("svg, script, style, noscript") || !element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    const back = behind(element);
    const [low, high] = [luminance(over(parsed(style.color), back)), luminance(back)].sort((one, other) => one - other);
    const needed = parseFloat(style.fontSize) >= 24 ? 3 : 4.5;
    if ((high + 0.05) / (low + 0.05) < needed) found.push(`too pale, ${((high + 0.05) / (low + 0.05)).toFixed(1)}: ${words(element)}`);
  }
  const wide = document.documentElement.scrollWidth;
  if (wide > document.documentElement.clientWidth) found.push(`the page is ${wide} px wide`);
  return found;
})()
