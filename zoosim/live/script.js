// Keeps the panels of a page as the server says they are, and says where tables go on; without it the page shows them as
// of its loading.
const panels = document.getElementById("panels");
const state = document.getElementById("live-state");
const shown = new Map();  // what each panel was last told to hold

function replace(html) {
  const next = new DOMParser().parseFromString(html, "text/html");
  const open = new Set([...panels.querySelectorAll("details[open]")].map(each => each.id));
  for (const fresh of next.querySelectorAll("details")) fresh.open = open.has(fresh.id);
  const wanted = [...next.body.children];
  const ids = new Set(wanted.map(each => each.id));
  for (const old of [...panels.children]) if (!ids.has(old.id)) old.remove();
  let before = null;
  for (const fresh of wanted) {
    const old = document.getElementById(fresh.id);
    let current = old;
    // What somebody is in stays as it is: a focus must not be lost, nor a scroll position.
    if (!old) { current = document.importNode(fresh, true); before ? before.after(current) : panels.prepend(current); }
    else if (!old.contains(document.activeElement) && shown.get(fresh.id) !== fresh.innerHTML) {
      const offsets = [...old.querySelectorAll(".scroll")].map(box => box.scrollLeft);
      shown.set(fresh.id, fresh.innerHTML);
      old.innerHTML = fresh.innerHTML;
      [...old.querySelectorAll(".scroll")].forEach((box, place) => { box.scrollLeft = offsets[place] ?? 0; });
    }
    before = current;
  }
}

// Fades a table at the side where more of it is.
function hint() {
  for (const box of document.querySelectorAll(".scroll")) {
    box.classList.toggle("more-left", box.scrollLeft > 1);
    box.classList.toggle("more-right", box.scrollLeft + box.clientWidth < box.scrollWidth - 1);
  }
}
addEventListener("scroll", hint, {capture: true, passive: true});
addEventListener("resize", hint);
addEventListener("toggle", hint, true);
hint();

if (panels) {
  const events = new EventSource("console/events");
  events.addEventListener("panels", event => {
    const message = JSON.parse(event.data);
    replace(message.html);
    hint();
    state.textContent = "Live, as of " + message.now + " UTC";
  });
  events.onerror = () => { state.textContent = state.dataset.gone; };
}
