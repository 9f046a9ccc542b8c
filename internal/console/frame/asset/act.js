// What a person does: signing in and out, and the actions on a run. Each is one
// request to the owner's API, which decides.
import { refresh, toLogin } from "./live.js";

const session = "/api/v1/owner/session";

function send(method, path, body) {
  const headers = { "x-halfspan-owner": "1" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  return fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), cache: "no-store" });
}

// say shows a message where it is read out.
export function say(text, bad, more) {
  const shown = document.getElementById("said");
  shown.classList.toggle("bad", bad);
  const lines = [text, ...(more ?? [])].map((line) => {
    const p = document.createElement("p");
    p.textContent = line;
    return p;
  });
  shown.replaceChildren(...lines);
}

// complain shows a refusal with its detail and what to do next; explain one that was read.
async function complain(answer, advise = true) {
  let problem;
  try {
    problem = await answer.json();
  } catch {
    say(`The server answered ${answer.status} and did not say why.`, true);
    return;
  }
  await explain(problem, advise);
}

export async function explain(problem, advise = true) {
  const more = (problem.errors ?? []).map((e) => `${e.location}: ${e.message}`);
  const advice = !advise ? {} : await fetch("/assets/advice.json").then((a) => a.json(), () => ({}));
  const next = advice[problem.reasonCode];
  if (next && !problem.detail.includes(next)) more.push("What to do next: " + next);
  say(`${problem.title}. ${problem.detail} (${problem.reasonCode})`, true, more);
}

export async function signIn(event) {
  event.preventDefault();
  const form = event.target;
  const field = form.elements.secret;
  const button = form.querySelector("button");
  button.disabled = true;
  try {
    const answer = await send("POST", session, { secret: field.value.trim() });
    if (answer.ok) {
      location.assign(form.dataset.next);
      return;
    }
    await complain(answer, false);
    field.select();
  } catch {
    say("No answer from the server. Try again.", true);
  } finally {
    button.disabled = false;
  }
  field.focus();
}

// goOn leaves the page for signing in when there is a session already: a link from
// elsewhere comes without the cookie and leads here.
export async function goOn(form) {
  try {
    const answer = await fetch(form.dataset.next, { headers: { Accept: "text/html" }, redirect: "manual", cache: "no-store" });
    if (answer.ok) location.replace(form.dataset.next);
  } catch {
    // no answer: the form is there
  }
}

export async function signOut() {
  try {
    const answer = await send("DELETE", session);
    if (!answer.ok && answer.status !== 401) {
      await complain(answer);
      return;
    }
    location.assign("/login");
  } catch {
    say("No answer from the server: you may still be signed in. Try again.", true);
  }
}

// act sends the form of an action. A dangerous one is confirmed first.
export async function act(event) {
  const form = event.target;
  if (!form.classList.contains("act")) return;
  event.preventDefault();
  if (form.dataset.confirm && !(await confirmed(document.getElementById(form.dataset.confirm)))) return;
  const button = form.querySelector("button[type=submit]");
  button.disabled = true;
  form.setAttribute("aria-busy", "true");
  try {
    const answer = await send("POST", form.dataset.path, entered(form));
    if (answer.status === 401) {
      toLogin();
      return;
    }
    if (answer.ok) {
      form.reset();
      if (form.dataset.said) say(form.dataset.said, false);
      else document.getElementById("said").replaceChildren(); // the page itself says it
    } else {
      await complain(answer);
    }
  } catch {
    say("No answer came. Whether it was recorded is not known; below is what is recorded now.", true);
  } finally {
    button.disabled = false;
    form.removeAttribute("aria-busy");
  }
  await refresh();
  // What was pressed may be gone now; go on reading where the outcome is.
  if (!document.contains(button) || document.activeElement === document.body) {
    const said = document.getElementById("said");
    (said.hasChildNodes() ? said : document.getElementById("frozen")).focus();
  }
}

// entered are the members of the request: what was left empty is left out.
function entered(form) {
  const typed = ([name, value]) => [name, form.elements[name].dataset?.number === undefined ? value.trim() : Number(value)];
  return Object.fromEntries([...new FormData(form)].map(typed).filter(([, value]) => value !== ""));
}

let question = null; // AbortController of the one question that may be answered

function confirmed(dialog) {
  question?.abort();
  const { signal } = (question = new AbortController());
  return new Promise((done) => {
    dialog.returnValue = "no";
    dialog.addEventListener("close", () => {
      if (dialog.open) return; // that was an earlier question's
      question.abort();
      done(dialog.returnValue === "yes");
    }, { signal });
    dialog.showModal(); // which puts the focus on leaving everything as it is
  });
}
