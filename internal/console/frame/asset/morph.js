// morph makes one tree like another and keeps the nodes that both have. Elements with
// an id are recognized by it, others by their place: what can come and go needs an id, and
// so do its neighbours. What was typed or chosen is no attribute and stays as it
// is, and so do open parts, dialogs, and what the page's scripts have closed. An element
// that is marked data-script is filled in by a script and left to it.

const kept = new Set(["open", "disabled", "aria-busy", "aria-disabled"]);

export function morph(from, to) {
  if (from.hasAttribute("data-script")) return;
  attributes(from, to);
  const wantedIds = new Set([...to.children].map((child) => child.id));
  const known = new Map();
  for (const child of [...from.children]) {
    if (!child.id) continue;
    if (wantedIds.has(child.id)) known.set(child.id, child);
    else child.remove(); // first, so that what stays need not move
  }
  let here = from.firstChild;
  for (const wanted of [...to.childNodes]) {
    let match = null;
    if (wanted.id && known.has(wanted.id)) {
      match = known.get(wanted.id);
    } else if (here && same(here, wanted) && !here.id && !wanted.id) {
      match = here;
    }
    if (!match || !same(match, wanted)) {
      const added = document.importNode(wanted, true);
      if (added.id) added.classList.add("fresh"); // until the next refresh
      from.insertBefore(added, here);
      continue;
    }
    if (match === here) {
      here = here.nextSibling;
    } else {
      move(from, match, here);
    }
    if (match.nodeType === Node.ELEMENT_NODE) {
      morph(match, wanted);
    } else if (match.data !== wanted.data) {
      match.data = wanted.data;
    }
  }
  while (here) {
    const next = here.nextSibling;
    here.remove();
    here = next;
  }
}

// move keeps the focus where browsers can.
function move(parent, child, before) {
  if (parent.moveBefore) parent.moveBefore(child, before);
  else parent.insertBefore(child, before);
}

function same(a, b) {
  return a.nodeType === b.nodeType && a.nodeName === b.nodeName && (a.id ?? "") === (b.id ?? "");
}

function attributes(from, to) {
  for (const { name } of [...from.attributes]) {
    if (!to.hasAttribute(name) && !kept.has(name)) from.removeAttribute(name);
  }
  for (const { name, value } of to.attributes) {
    if (!kept.has(name) && from.getAttribute(name) !== value) from.setAttribute(name, value);
  }
}
