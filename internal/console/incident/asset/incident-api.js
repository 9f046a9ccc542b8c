// The one way to the control plane: the page's controls, the browser's tools and the
// simulator all send this request, and the server decides it.
import { refresh, state } from "./live.js";

// ask sends a request and returns the status and the body of the answer, null where it is
// no JSON. It fails when no answer comes.
export async function ask(operation, channel, members) {
  const answer = await fetch("/api/v1/incident", {
    method: "POST", headers: { "Content-Type": "application/json" }, cache: "no-store", body: JSON.stringify({ ...members, operation, channel }),
  });
  return { ok: answer.ok, status: answer.status, body: await answer.json().catch(() => null) };
}

// update shows what is recorded now, and reports whether it could.
export async function update() {
  const current = (await refresh()) === true;
  if (current) state("live");
  return current;
}

// use runs a tool. What was given is sent as it is, so that the server refuses what does not
// belong there; what would take the place of the tool's own members is sent under another name.
export async function use(tool, input, channel) {
  const members = Object.create(null); // in which "__proto__" is a member like any other
  const given = input !== null && typeof input === "object" && !Array.isArray(input) ? input : { arguments: input };
  for (const [name, value] of Object.entries(given)) members[name === "operation" || name === "channel" ? "arguments." + name : name] = value;
  try {
    const { status, body } = await ask(tool.operation, channel, members);
    return { status, ...body };
  } catch {
    return { status: 0, detail: "No answer came. Whether it was recorded is not known; an execution that is sent again with the same key is not applied twice." };
  } finally {
    update(); // not waited for: the answer is the tool's
  }
}

// current is what the page shows, for whoever fills in a request.
export function current() {
  const { version, mitigation, staged, digest, key } = document.getElementById("status").dataset;
  return { version: Number(version), mitigation, staged: Number(staged ?? version), digest, key };
}
