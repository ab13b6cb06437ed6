// What a figure needs on a phone: panels below each other, names of rows above them, names of lines below the plot.
const ROW = 44;
const LINE = 16;
const LETTER = 6.6;
const INK = "#1f2933";
const onPhone = matchMedia("(max-width: 640px)");

const lines = text => text.split("<br>").length;
const letters = text => text.replace(/<[^>]*>/g, "").replace(/&[#\w]+;/g, "x").length;
// Joins pieces of text, breaking the line before one that would make it longer than `most` letters.
const filled = (pieces, most) => {
  const rows = [""];
  for (const piece of pieces) {
    if (letters(rows.at(-1)) && letters(rows.at(-1) + piece) > most + 1) rows.push("");
    rows[rows.length - 1] += piece;
  }
  return rows.join("<br>");
};
const wrapped = (text, most) => {
  const words = text.split(/(?<=[ _./-])/).flatMap(word => letters(word) > most ? word.match(/&[#\w]+;|./gs) : [word]);
  return filled(words, most);
};
const axesOf = (layout, letter) => Object.keys(layout).filter(key => key.startsWith(`${letter}axis`));
const isTitle = label => label.xref === "paper" && label.yref === "paper" && !label.showarrow;

// Returns data and layout of a figure for a page that leaves it `width` px.
function forPhone(figure, width) {
  const {data, layout} = structuredClone(figure);
  layout.annotations ??= [];
  const polars = Object.keys(layout).filter(key => key.startsWith("polar"));
  if (polars.length) {
    pairPolars(polars.map(key => layout[key]), layout);
    return {data, layout};
  }
  const panels = axesOf(layout, "x").map(key => {
    const y = (layout[key].anchor ?? "y").replace("y", "yaxis");
    return {x: layout[key], y: layout[y], xid: key.replace("axis", ""), yid: y.replace("axis", "")};
  });
  const shades = data.some(trace => trace.type === "heatmap");
  if (shades) wrapRowNames(panels, layout);
  else if (panels.some(({y}) => y.ticktext)) nameRowsAbove(panels, layout);
  nameLinesBelow(layout, width);
  wrapTitles(layout, width, shades);
  const narrow = new Set(panels.map(({x}) => x.domain?.[0] ?? 0)).size > 1;
  if (!shades && (narrow || panels[0].y.ticktext)) stack(panels, layout);
  legendBelow(data, layout, width);
  placeShocks(layout, width);
  for (const {x} of panels) if (!x.tickvals) x.nticks = Math.min(x.nticks || 5, 5);
  return {data, layout};
}

// Radars stand two by two.
function pairPolars(polars, layout) {
  const {t, b} = layout.margin;
  const titles = layout.annotations.filter(isTitle);
  const rows = Math.ceil(polars.length / 2);
  const row = 1 / rows;
  polars.forEach(({domain}, i) => {
    const left = i % 2 ? 0.62 : 0.06;
    const top = 1 - row * Math.floor(i / 2);
    Object.assign(domain, {x: [left, left + 0.32], y: [top - row + row * 0.4, top]});
    Object.assign(titles[i], {x: left + 0.16, y: top});
  });
  Object.assign(layout.margin, {l: 16, r: 16});
  layout.height = rows * 200 + t + b;
}

function wrapRowNames(panels, layout) {
  for (const {y} of panels) y.ticktext = y.ticktext.map(name => wrapped(name, 16));
  layout.margin.l = Math.min(layout.margin.l, 120);
}

function nameRowsAbove(panels, layout) {
  const names = panels.map(({y}) => y.ticktext).find(Boolean);
  const size = Math.max(...names.map(letters)) > 44 ? 10 : 12;
  for (const {y, xid, yid} of panels) {
    y.showticklabels = false;
    y.height = ROW * Math.abs(y.range[0] - y.range[1]);
    (y.ticktext ?? names).forEach((name, row) => layout.annotations.push({
      text: name, xref: `${xid} domain`, x: 0, xanchor: "left", yref: yid, y: y.tickvals?.[row] ?? row, yshift: 19, showarrow: false,
      font: {size, color: INK},
    }));
  }
  layout.margin.l = 12;
}

function wrapTitles(layout, width, shades) {
  const {l, r} = layout.margin;
  const most = Math.floor((width - r - (shades ? 0 : l)) / LETTER);
  for (const label of layout.annotations) {
    if (label.xref !== "paper" || label.showarrow) continue;
    if (shades) label.xshift = -l;
    Object.assign(label, {text: letters(label.text) > most ? wrapped(label.text, most) : label.text, align: "left"});
  }
}

function stack(panels, layout) {
  const {t, b} = layout.margin;
  const inner = layout.height - t - b;
  panels.sort((one, other) => (other.y.domain?.[1] ?? 1) - (one.y.domain?.[1] ?? 1) || (one.x.domain?.[0] ?? 0) - (other.x.domain?.[0] ?? 0));
  const titles = panels.map(({x, y}) => layout.annotations.find(label => isTitle(label)
    && Math.abs(label.y - (y.domain?.[1] ?? 1)) < 1e-6 && label.x >= (x.domain?.[0] ?? 0) && label.x <= (x.domain?.[1] ?? 1)));
  const heights = panels.map(({y}) => y.height ?? inner * (y.domain[1] - y.domain[0]));
  const gaps = panels.map(({x}, i) => i ? LINE * lines(titles[i]?.text ?? "") + (panels[i - 1].x.title?.text ? 54 : 36) : 0);
  const total = heights.reduce((sum, height) => sum + height) + gaps.reduce((sum, gap) => sum + gap);
  let done = 0;
  panels.forEach(({x, y}, i) => {
    done += gaps[i];
    const top = 1 - done / total;
    done += heights[i];
    x.domain = [0, 1];
    y.domain = [Math.max(0, 1 - done / total), top];
    x.showticklabels = true;
    if (!y.ticktext && !y.height) y.showticklabels = true;
    delete y.height;
    if (titles[i]) Object.assign(titles[i], {x: 0, xanchor: "left", align: "left", y: top, yshift: 4});
  });
  layout.height = total + t + b;
}

function nameLinesBelow(layout, width) {
  const isName = label => label.name || label.xref === "paper" && label.xanchor === "left" && label.x >= 1;
  const names = layout.annotations.filter(isName);
  if (!names.length) return;
  layout.annotations = layout.annotations.filter(label => !isName(label));
  layout.margin.r = 16;
  if (document.querySelector(".chips")) return;
  const pieces = names.map(({text, font}) => `<span style="color:${font.color}">${text}</span>\u2003`);
  const text = filled(pieces, Math.floor((width - layout.margin.l) / LETTER));
  const shift = -(layout.margin.b ?? 54);
  layout.annotations.push({text, xref: "paper", x: 0, yref: "paper", y: 0, yanchor: "top", yshift: shift, align: "left", showarrow: false});
  layout.margin.b += LINE * lines(text) + 8;
  layout.height += LINE * lines(text) + 8;
}

function legendBelow(data, layout, width) {
  if (layout.legend?.yref !== "container") return; // others push the plot down by themselves
  const names = [...new Set(data.filter(trace => trace.name && trace.showlegend !== false).map(trace => trace.name))];
  const across = Math.max(1, Math.floor(width / (56 + LETTER * Math.max(...names.map(letters)))));
  const height = 20 * Math.ceil(names.length / across);
  Object.assign(layout.legend, {y: 0, yanchor: "bottom"});
  layout.height += height;
  layout.margin.b += height;
}

// Writes the names above vertical lines on as many levels as a narrow plot needs.
function placeShocks(layout, width) {
  const range = layout.xaxis.range;
  const labels = layout.annotations.filter(label => label.xref === "x" && label.yref === "paper" && label.y === 1);
  if (!range || !labels.length) return;
  const {l, r, t} = layout.margin;
  const plot = width - l - r;
  const taken = [];
  for (const label of labels) {
    const size = LETTER * letters(label.text) + 8;
    const place = plot * (label.x - range[0]) / (range[1] - range[0]);
    const start = Math.max(-l / 2, Math.min(place - size / 2, plot + r - size));
    let level = 0;
    while (taken.some(other => other.level === level && start < other.end && other.start < start + size)) level += 1;
    taken.push({level, start, end: start + size});
    Object.assign(label, {xanchor: "left", xshift: start - place, yshift: 2 + LINE * level});
  }
  const top = 26 + LINE * Math.max(...taken.map(({level}) => level));
  layout.height += top - t;
  layout.margin.t = top;
}
