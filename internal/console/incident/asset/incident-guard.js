// What keeps a press at what it was aimed at. An agent, or another tab, can stage another
// mitigation at any moment, also while somebody is about to press Approve. The server gives
// another action other elements, so that a press which has begun has nowhere to end; what is
// new cannot be pressed at once; and what a press sends is what stood when it began. The
// server decides all the same.

const quiet = 1_000; // milliseconds that what is new stands there before it can be pressed
const step = 100;

const byId = (id) => document.getElementById(id);

let held = false; // a pointer is down
let aimed = null; // what the press that is under way began at
let focused = null; // where the focus was last
let own = ""; // digest of what was staged here
let known = null; // the action that was shown last

// entered are the members that a form sends.
export function entered(form) {
  return Object.fromEntries([...form.querySelectorAll("input")].map((input) => [input.name, input.dataset.number === undefined ? input.value : Number(input.value)]));
}

// aim returns the members that a press of the form sends: those of its beginning.
export function aim(form) {
  return aimed?.operation === form.dataset.operation ? aimed.members : entered(form);
}

// inert reports whether a button is too new to be pressed.
export const inert = (button) => button?.getAttribute("aria-disabled") === "true";

function begin(event) {
  if (event.repeat) {
    // A key that is held down would press what comes to stand where the focus goes.
    if ((event.key === "Enter" || event.key === " ") && event.target.closest?.("button")) event.preventDefault();
    return;
  }
  held = event.type === "pointerdown" && event.button === 0;
  const form = event.target.closest?.(".deciding .ask");
  aimed = form ? { operation: form.dataset.operation, members: entered(form) } : null;
}

function end(event) {
  if (event.type !== "keyup") held = false;
  setTimeout(() => {
    aimed = null; // after the click that belongs to it
  });
}

// action is what is staged, as the page shows it; null for nothing.
function action() {
  const { digest, title, staged } = byId("status").dataset;
  return digest ? { digest, title, version: staged } : null;
}

// mine takes up an answer to this page's own request: what it has staged is no news, and what
// it has decided was about what stands.
export function mine(operation, { replayed, result }) {
  if (operation === "stage") own = result.staged.actionDigest;
  if (operation === "reset") known = null;
  if (!replayed && (operation !== "stage" || own === action()?.digest)) byId("changed").replaceChildren();
}

// changed says, at once and until somebody acts, that another action waits now.
function changed(was, is) {
  const name = (a) => (was.title === is.title ? `${a.title}, version ${a.version}` : a.title);
  const line = document.createElement("p");
  const what = document.createElement("b");
  what.textContent = `What is staged has changed: ${name(was)} → ${name(is)}.`;
  line.append(what, " Read it before approving.");
  byId("changed").replaceChildren(line);
}

let timer = 0;

// rest keeps the buttons of an action from being pressed, for as long as the page is looked
// at and no pointer is down.
function rest(deciding) {
  clearInterval(timer);
  const buttons = deciding.querySelectorAll("button");
  for (const button of buttons) button.setAttribute("aria-disabled", "true");
  let left = quiet;
  timer = setInterval(() => {
    if (document.hidden || held) return;
    left -= step;
    if (left > 0) return;
    clearInterval(timer);
    for (const button of buttons) button.removeAttribute("aria-disabled");
  }, step);
}

let stands = ""; // id of the buttons that are shown

// look takes up what a refresh has changed.
function look() {
  for (const button of document.querySelectorAll(".ask button:disabled")) button.disabled = false;
  const deciding = document.querySelector(".deciding");
  if (deciding && deciding.id !== stands) rest(deciding);
  stands = deciding?.id ?? "";
  const is = action();
  if (known && is && known.digest !== is.digest && is.digest !== own) changed(known, is);
  if (!is) byId("changed").replaceChildren();
  known = is ?? known;
  if (focused && !focused.isConnected && document.activeElement === document.body && focused.closest(".deciding")) {
    byId("action-title").focus({ preventScroll: true });
  }
}

// guard begins.
export function guard() {
  for (const type of ["pointerdown", "keydown"]) document.addEventListener(type, begin, true);
  for (const type of ["pointerup", "pointercancel", "keyup"]) document.addEventListener(type, end, true);
  document.addEventListener("pointermove", (event) => {
    if (event.buttons === 0) held = false; // released where the page did not see it
  });
  window.addEventListener("blur", () => {
    held = false;
    aimed = null; // its end is another window's
  });
  document.addEventListener("focusin", (event) => {
    focused = event.target;
  });
  stands = document.querySelector(".deciding")?.id ?? "";
  look();
  new MutationObserver(look).observe(byId("main"), { childList: true, subtree: true, attributes: true, attributeFilter: ["data-digest"] });
}
