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
  const wide = document.documentElement.scrollWidth;
  if (wide > document.documentElement.clientWidth) found.push(`the page is ${wide} px wide`);
  return found;
})()
