// The tools for an agent: registered where the browser has the API, simulated elsewhere, and
// what was probed of them since the page was loaded.
import { use, current } from "./incident-api.js";
import { detect, register, invoke } from "./incident-native.js";

const reading = "get_incident_snapshot";
const executing = "execute_approved_mitigation";
// What no action has: a request with it executes nothing, whatever the server does.
const noDigest = "0".repeat(64);
const noKey = "rr_" + "0".repeat(32);
// How the server refuses it when it has compared the digest with what is staged, and how when
// there was nothing to compare, which shows less.
const enforcing = { reasonCode: "stale_execution", status: 412 };
const nothing = { reasonCode: "nothing_staged", status: 422 };

const byId = (id) => document.getElementById(id);

const spelled = { yes: "yes", no: "no", unknown: "not probed", unshown: "not shown" };

// label says what a probe came to: "yes", "no", "unknown" before it, or "unshown" after one
// that shows neither.
function label(name, is, why) {
  const item = byId("label-" + name);
  const chip = item.querySelector(".chip");
  item.dataset.is = is;
  chip.textContent = spelled[is];
  chip.className = "chip " + { yes: "good", no: "wait", unknown: "over", unshown: "over" }[is];
  item.querySelector("p").textContent = why;
}

const came = new Set(); // hashes of the receipts that calls through the browser left

export async function offer() {
  const tools = await fetch("/assets/incident-tools.json").then((answer) => answer.json());
  const context = detected();
  const registered = context !== null && (await registration(context, tools));
  const probes = { invoke: byId("probe-invoke"), enforce: byId("probe-enforce") };
  probes.invoke.disabled = !registered;
  probes.enforce.disabled = false;
  if (!context) label("registered", "no", "There is no API of the browser to register them with.");
  if (!registered) {
    label("invoked", "no", "There is no tool of the browser to call, and a simulated call is none.");
    simulator(tools);
  }
  onPress(probes.invoke, () => invocation(context));
  onPress(probes.enforce, () => enforcement(registered ? context : null, tools));
}

// onPress runs a probe once at a time, and leaves the focus where it is.
function onPress(button, probe) {
  button.addEventListener("click", async () => {
    if (button.getAttribute("aria-busy")) return;
    button.setAttribute("aria-busy", "true");
    await probe();
    button.removeAttribute("aria-busy");
  });
}

function detected() {
  const { present, context, checks } = detect();
  const why = context ? "document.modelContext is this browser's own." : present ? "A script put document.modelContext there. It is not this browser's, and it is not used." : "This browser has no document.modelContext.";
  label("detected", context ? "yes" : "no", why);
  const list = byId("checks");
  list.hidden = false;
  list.querySelector("ul").replaceChildren(...checks.map(({ ok, what }) => {
    const line = document.createElement("li");
    line.className = ok ? "ok" : "no";
    const verdict = document.createElement("b");
    verdict.textContent = ok ? "yes" : "no";
    line.append(what, " ", verdict);
    return line;
  }));
  return context;
}

async function registration(context, tools) {
  try {
    const listed = await register(context, tools, async (tool, input) => {
      const result = await use(tool, input, "webmcp");
      if (result.receipt) came.add(result.receipt.hash);
      return result;
    });
    const all = listed.length === tools.length;
    label("registered", all ? "yes" : "no", `The browser lists ${listed.length} of ${tools.length} tools of this page.`);
    return all;
  } catch (error) {
    label("registered", "no", `The browser refused: ${error?.name ?? "error"}.`);
    return false;
  }
}

async function invocation(context) {
  try {
    const { result, form } = await invoke(context, reading, {});
    const through = result.status === 200 && result.receipt?.data.channel === "webmcp" && came.has(result.receipt.hash);
    label("invoked", through ? "yes" : "no", through ? `${reading} was called with ${form}; receipt ${result.receipt.sequence}.` : `The call came back with status ${result.status}.`);
  } catch (error) {
    label("invoked", "no", `The call failed: ${error?.name ?? "error"}.`);
  }
}

async function enforcement(context, tools) {
  const input = { actionDigest: noDigest, resourceVersion: current().version, idempotencyKey: noKey };
  try {
    let result;
    let how = "by the simulator's request";
    if (context) {
      const called = await invoke(context, executing, input);
      result = called.result;
      how = "by a call through the browser, with " + called.form;
    } else {
      result = await use(tools.find((tool) => tool.name === executing), input, "simulator");
    }
    const answered = ({ reasonCode, status }) => result.reasonCode === reasonCode && result.status === status;
    if (answered(enforcing)) label("enforced", "yes", `One execution was refused: ${result.reasonCode}, probed ${how}.`);
    else if (answered(nothing)) label("enforced", "unshown", `One execution was refused: ${result.reasonCode}, probed ${how}. Nothing is staged that its digest could differ from: stage a mitigation and probe again.`);
    else label("enforced", "no", `The server answered ${result.status} ${result.reasonCode ?? ""}, probed ${how}.`);
  } catch (error) {
    label("enforced", "no", `The call failed: ${error?.name ?? "error"}.`);
  }
}

// simulator shows the form that stands for an agent's browser.
function simulator(tools) {
  const form = byId("simulate");
  const { tool: choice, arguments: text } = form.elements;
  let filled = "";
  const chosen = () => tools.find((tool) => tool.name === choice.value);
  // fill proposes arguments from what the page shows, unless somebody wrote their own.
  const fill = (anew) => {
    if (!anew && text.value !== filled) return;
    filled = text.value = JSON.stringify(example(chosen()), null, 1);
  };
  choice.addEventListener("change", () => fill(true));
  new MutationObserver(() => fill(false)).observe(byId("status"), { attributes: true });
  fill(true);
  byId("simulator").hidden = false;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (form.getAttribute("aria-busy")) return;
    form.setAttribute("aria-busy", "true");
    let result;
    try {
      result = await use(chosen(), JSON.parse(text.value), "simulator");
    } catch {
      result = { detail: "The arguments are not JSON; nothing was sent." };
    }
    form.removeAttribute("aria-busy");
    const shown = byId("result");
    byId("result-title").hidden = shown.hidden = false;
    shown.textContent = JSON.stringify(brief(result), null, 1);
    byId("simulated").textContent = result.reasonCode ? `Refused: ${result.reasonCode}.` : result.status === 200 ? `${choice.value} answered.` : (result.detail ?? "");
  });
}

// example are arguments that fit what the page shows.
function example(tool) {
  const { version, mitigation, staged, digest, key } = current();
  const fits = { mitigationId: mitigation ?? "restore-pool", expectedVersion: version, actionDigest: digest ?? noDigest, resourceVersion: staged, idempotencyKey: key ?? noKey };
  return Object.fromEntries(Object.keys(tool.inputSchema.properties).map((name) => [name, fits[name]]));
}

// brief leaves out the list of receipts, which the page shows itself.
function brief(result) {
  if (!result.snapshot) return result;
  const { items, ...receipts } = result.snapshot.receipts;
  return { ...result, snapshot: { ...result.snapshot, receipts: { ...receipts, items: `${items.length}, shown on the page` } } };
}
