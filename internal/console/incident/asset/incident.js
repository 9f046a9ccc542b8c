// What a person does on the page of the incident: one request for each press, and then the
// page as the server has it. Nothing here decides.
import { say, explain } from "./act.js";
import { ask, update } from "./incident-api.js";
import { offer } from "./incident-agent.js";
import { guard, aim, inert, mine } from "./incident-guard.js";
import { watchExpiry } from "./incident-expiry.js";

const every = 3_000; // milliseconds between two looks at what another tab or an agent did

// Where to go on when what was pressed is gone: to where it is read, never to a button.
const after = { approve: "action-title", execute: "execution-title", stage: "action-title", reset: "status" };

document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (!form.classList.contains("ask")) return;
  event.preventDefault();
  const button = form.querySelector("button");
  if (form.getAttribute("aria-busy") || inert(button)) return;
  form.setAttribute("aria-busy", "true");
  told = "";
  const { operation } = form.dataset;
  const members = aim(form);
  said.replaceChildren();
  place(form).append(said);
  let lost = false;
  let of = null; // how the action stood in the answer
  try {
    const { ok, status, body } = await ask(operation, "human", members);
    if (body?.snapshot) of = `${body.snapshot.resourceVersion} ${body.snapshot.approval?.state ?? "none"}`;
    if (ok && body) {
      mine(operation, body);
      tell(operation, body);
    } else if (body) {
      await explain(body, !body.snapshot); // what was decided says itself what to do next
    } else {
      say(`The server answered ${status} and did not say why.`, true);
    }
    dismissible(button);
  } catch {
    lost = true;
  }
  form.removeAttribute("aria-busy");
  const current = await update();
  if (lost) {
    noAnswer(operation, current);
    dismissible(button);
  }
  told = of ?? standing();
  drop();
  if (!document.contains(button)) document.getElementById(after[operation])?.focus();
});

// place is where the message of a form goes: beside it, where nothing is covered.
function place(form) {
  return form.dataset.replay === undefined ? form.closest("li, section").querySelector(".told") : document.getElementById("told-execution");
}

// tell says what the receipt of a request says.
function tell(operation, { replayed, receipt, result }) {
  const { detail, outcome } = receipt.data;
  if (replayed) say("Same record, nothing applied again.", false, [`The execution ${result.execution.id} is told again.`]);
  else say(detail, outcome !== "success");
  if (operation !== "stage") return;
  const line = document.createElement("p");
  const link = document.createElement("a");
  link.href = "#action-title";
  link.textContent = "Go to the exact action";
  line.append(link);
  said.append(line);
}

function noAnswer(operation, current) {
  const below = current ? "Below is what is recorded now." : "The page could not be read again either: what is below may be old.";
  const again = operation === "execute" ? ["Execute or repeat it: the same key gets the same record, and nothing is applied twice."] : [];
  say(`No answer came. Whether it was recorded is not known. ${below}`, true, again);
}

const said = document.getElementById("said");
let told = ""; // how the action stood when something was said of it

// standing is what a message stops to be true with.
function standing() {
  const { version, approval } = document.getElementById("status").dataset;
  return version + " " + approval;
}

// dismissible adds a button that clears the message, which stays until then, or until what
// it is about has changed.
function dismissible(pressed) {
  const button = document.createElement("button");
  button.type = "button";
  button.id = "dismiss";
  button.className = "quiet";
  button.textContent = "Dismiss";
  button.addEventListener("click", () => {
    said.replaceChildren();
    (document.contains(pressed) ? pressed : document.getElementById("action-title")).focus({ preventScroll: true });
  });
  said.append(button);
}

// look shows what became of the incident meanwhile.
async function look() {
  if (document.querySelector(".ask[aria-busy]")) return; // which looks itself
  await update();
  if (!document.querySelector(".ask[aria-busy]")) drop();
}

// drop takes a message away that is no longer about what is shown.
function drop() {
  if (told === "" || told === standing()) return;
  told = "";
  said.replaceChildren();
}

let timer = 0;

function watch() {
  clearInterval(timer);
  if (document.hidden) return;
  look();
  timer = setInterval(look, every);
}
guard();
document.addEventListener("visibilitychange", watch);
watch();
watchExpiry();
offer();
