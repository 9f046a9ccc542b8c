// What a person does on the page of the incident: one request for each press, and then the
// page as the server has it. Nothing here decides.
import { say, explain } from "./act.js";
import { ask, update } from "./incident-api.js";
import { offer } from "./incident-agent.js";

const every = 3_000; // milliseconds between two looks at what another tab or an agent did

// Where to go on when what was pressed is gone.
const after = { approve: "execute", execute: "execution", stage: "action", reset: "status" };

document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (!form.classList.contains("ask")) return;
  event.preventDefault();
  if (form.getAttribute("aria-busy")) return;
  form.setAttribute("aria-busy", "true");
  told = "";
  const { operation } = form.dataset;
  const button = form.querySelector("button");
  try {
    const { ok, status, body } = await ask(operation, "human", entered(form));
    if (ok && body) tell(body);
    else if (body) await explain(body);
    else say(`The server answered ${status} and did not say why.`, true);
  } catch {
    const again = operation === "execute" ? ["Execute or repeat it: the same key gets the same record, and nothing is applied twice."] : [];
    say("No answer came. Whether it was recorded is not known; below is what is recorded now.", true, again);
  }
  dismissible();
  form.removeAttribute("aria-busy");
  await update();
  told = standing();
  if (!document.contains(button)) document.getElementById(after[operation])?.focus();
});

// tell says what the receipt of a request says.
function tell({ replayed, receipt, result }) {
  const { detail, outcome } = receipt.data;
  if (replayed) say("Same record, nothing applied again.", false, [`The execution ${result.execution.id} is told again.`]);
  else say(detail, outcome !== "success");
}

function entered(form) {
  return Object.fromEntries([...form.querySelectorAll("input")].map((input) => [input.name, input.dataset.number === undefined ? input.value : Number(input.value)]));
}

const said = document.getElementById("said");
let told = ""; // how the action stood when something was said of it

// standing is what a message stops to be true with.
function standing() {
  const { version, approval } = document.getElementById("status").dataset;
  return version + " " + approval;
}

// dismissible adds a button that clears the message, which stays in view until then, or until
// what it is about has changed.
function dismissible() {
  const button = document.createElement("button");
  button.type = "button";
  button.id = "dismiss";
  button.className = "quiet";
  button.textContent = "Dismiss";
  button.addEventListener("click", () => {
    said.replaceChildren();
    document.getElementById("main").focus({ preventScroll: true });
  });
  said.append(button);
}

// look shows what became of the incident meanwhile.
async function look() {
  await update();
  if (told !== "" && told !== standing() && !document.querySelector(".ask[aria-busy]")) {
    told = "";
    said.replaceChildren();
  }
}

let timer = 0;

function watch() {
  clearInterval(timer);
  if (document.hidden) return;
  look();
  timer = setInterval(look, every);
}
document.addEventListener("visibilitychange", watch);
watch();
offer();
