// Every table can be sorted by the buttons in its heads; a long one can be filtered by words, too.
const FILTERED = 8; // rows from which on a table has a filter
const words = element => element.textContent.replace(/\s+/g, " ").trim();

// The number that a cell begins with, or null: "+38% (10 to 60)" is 38, "<0.001" and "below .001" are .001, and a true
// minus counts; dates and "never" are none.
function numberIn(text) {
  const plain = text.replaceAll("\u2212", "-").replaceAll(",", "");
  const match = plain.match(/^(?:<|below )?\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)(?![-\w:])/i);
  return match && Number(match[1]);
}

// Whether a column holds numbers: one at least, and in every cell with a digit.
function isNumeric(texts) {
  return texts.some(text => numberIn(text) !== null) && texts.every(text => !/\d/.test(text) || numberIn(text) !== null);
}

// Pairs of a head over a single column and that column's number.
function headsOf(table) {
  const taken = [];
  const heads = [];
  [...table.tHead.rows].forEach((row, y) => {
    let x = 0;
    for (const head of row.cells) {
      while (taken[y]?.[x]) x += 1;
      for (let down = 0; down < head.rowSpan; down += 1) {
        for (let right = 0; right < head.colSpan; right += 1) (taken[y + down] ??= [])[x + right] = true;
      }
      if (head.colSpan === 1) heads.push([head, x]);
      x += head.colSpan;
    }
  });
  return heads;
}

// Rows between rows that span columns, which stay in their places as headings.
function groupsOf(body, rows) {
  const groups = [[]];
  for (const row of rows) {
    if ([...row.cells].some(cell => cell.colSpan > 1)) groups.push([row], []);
    else groups.at(-1).push(row);
  }
  return groups;
}

function makeSortable(table) {
  const body = table.tBodies[0];
  const original = [...body.rows];
  const heads = headsOf(table).filter(([head]) => words(head));
  for (const [head, column] of heads) {
    const textOf = row => row.cells[column] ? words(row.cells[column]) : "";
    const isText = !isNumeric(original.map(textOf));
    const key = row => isText ? textOf(row) || null : numberIn(textOf(row));
    const compare = (one, other) => isText ? one.localeCompare(other, undefined, {numeric: true}) : one - other;
    const [first, second] = isText ? ["ascending", "descending"] : ["descending", "ascending"];
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.onclick = () => {
      const order = {[first]: second, [second]: ""}[head.getAttribute("aria-sort")] ?? first; // a third click: as it came
      for (const [other] of heads) other.removeAttribute("aria-sort");
      if (order) head.setAttribute("aria-sort", order);
      const sign = order === "descending" ? -1 : 1;
      const sorted = groupsOf(body, original).flatMap(group => !order ? group : group
        .map(row => [key(row), row])
        .sort(([one], [other]) => one === null || other === null ? (one === null) - (other === null) : sign * compare(one, other))
        .map(([, row]) => row));
      body.append(...sorted);
    };
  }
}

function makeFilter(table) {
  const rows = [...table.tBodies[0].rows];
  if (rows.length < FILTERED) return;
  const input = document.createElement("input");
  const status = document.createElement("span");
  const label = document.createElement("label");
  Object.assign(input, {type: "search", placeholder: "Filter rows", autocomplete: "off"});
  input.setAttribute("aria-label", "Filter the rows of this table by words");
  status.setAttribute("role", "status");
  label.className = "filter";
  label.append(input, status);
  table.closest(".scroll").before(label);
  input.oninput = () => {
    // Words in quotes must be all of a cell: "policy 1" is not policy 11.
    const wanted = [...input.value.toLowerCase().matchAll(/"([^"]*)"|[^\s"]+/g)];
    let shown = 0;
    for (const row of rows) {
      const text = words(row).toLowerCase();
      const cells = [...row.cells].map(cell => words(cell).toLowerCase().replaceAll('"', ""));
      row.hidden = !wanted.every(([word, cell]) => cell === undefined ? text.includes(word) : cells.includes(cell));
      shown += !row.hidden;
    }
    status.textContent = wanted.length ? `${shown.toLocaleString("en")} of ${rows.length.toLocaleString("en")} rows` : "";
  };
}

for (const table of document.querySelectorAll(".scroll > table")) {
  makeSortable(table);
  makeFilter(table);
}

// A link to a table unfolds it, and filters it by the link's words.
for (const link of document.querySelectorAll("a[data-filter]")) link.addEventListener("click", () => {
  const target = document.getElementById(link.hash.slice(1));
  for (const box of target.querySelectorAll("details")) box.open = true;
  const input = target.querySelector(".filter input");
  if (!input) return;
  input.value = link.dataset.filter;
  input.dispatchEvent(new Event("input"));
});
