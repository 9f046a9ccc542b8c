// Keeping the page current. A stream says that something was recorded; then the page
// is fetched again and what differs is taken over, node by node, so that focus,
// position, open parts and what was typed stay as they are.
import { setClock, tick } from "./time.js";
import { morph } from "./morph.js";

const slowest = 15_000; // milliseconds between two attempts to connect
const silence = 40_000; // the server says something every 15 s
const freezeEvery = 2_000; // milliseconds between two questions whether the workspace is frozen

let stream = null; // AbortController of the open stream
let running = null; // the refresh that is under way
let next = null; // the one after it, for what was recorded meanwhile

export function toLogin() {
  location.assign("/login?next=" + encodeURIComponent(location.pathname + location.search));
}

// refresh fetches the page, takes over what differs, and reports whether it could. Who calls
// during one gets the one after it, which is newer than the call.
export function refresh() {
  if (running) {
    next ??= running.then(() => {
      next = null;
      return refresh();
    });
    return next;
  }
  running = load().finally(() => {
    running = null;
  });
  return running;
}

async function load() {
  const asked = performance.now();
  let answer;
  try {
    answer = await fetch(location.href, { headers: { Accept: "text/html" }, cache: "no-store" });
    if (new URL(answer.url).pathname === "/login") return toLogin();
    if (!answer.ok) {
      state("not current");
      return false;
    }
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById("main");
    morph(document.getElementById("main"), fresh);
    morph(document.getElementById("frozen"), page.getElementById("frozen"));
    document.title = page.title;
    setClock(Number(fresh.dataset.now), asked);
    tick();
    return true;
  } catch {
    state("not current"); // the stream tells when the server is back
    return false;
  }
}

// state says beside the pages' names how current this one is.
export function state(word) {
  const shown = document.getElementById("live");
  if (!shown) return;
  shown.hidden = false;
  shown.textContent = word;
  shown.classList.toggle("lost", word !== "live");
}

// follow keeps a stream open while somebody looks at the page.
export function follow() {
  if (!document.getElementById("main").dataset.live) return;
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      stream?.abort();
    } else {
      refresh().then(connect);
    }
  });
  if (!document.hidden) connect();
}

// watchFreeze takes over within seconds, on every page, that the workspace was frozen or
// unfrozen. It asks, since a stream more for each page would use up the browser's connections.
export function watchFreeze() {
  const banner = document.getElementById("frozen");
  if (!banner?.dataset.mark) return;
  setInterval(async () => {
    if (document.hidden) return;
    try {
      const answer = await fetch("/freeze/mark", { redirect: "manual", cache: "no-store" });
      if (answer.ok && (await answer.text()) !== banner.dataset.mark) refresh();
    } catch {
      // the page says elsewhere that it is not current
    }
  }, freezeEvery);
}

let connecting = false;

async function connect() {
  if (connecting) return;
  connecting = true;
  let wait = 500;
  while (!document.hidden) {
    const began = performance.now();
    if (!(await listen())) break;
    if (document.hidden) break;
    state("reconnecting");
    if (performance.now() - began > slowest) wait = 500;
    await new Promise((done) => setTimeout(done, wait));
    wait = Math.min(wait * 2, slowest);
    await refresh();
  }
  connecting = false;
}

// listen reads the stream until it ends, and reports whether to come back.
async function listen() {
  const main = document.getElementById("main");
  const head = Number(main.dataset.head);
  stream = new AbortController();
  let timer = 0;
  const alive = () => {
    clearTimeout(timer);
    timer = setTimeout(() => stream.abort(), silence);
  };
  try {
    const headers = { Accept: "text/event-stream" };
    if (head > 0) headers["Last-Event-ID"] = String(head);
    const answer = await fetch(main.dataset.live, { headers, cache: "no-store", signal: stream.signal });
    if (answer.status === 401) {
      toLogin();
      return false;
    }
    if (!answer.ok) return answer.status >= 500;
    state("live");
    alive();
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return true;
      alive();
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      if (lines.some((line) => line.startsWith("id: "))) later();
    }
  } catch {
    return true;
  } finally {
    clearTimeout(timer);
  }
}

let soon = 0;

// later refreshes once for what is recorded together.
function later() {
  if (soon) return;
  soon = setTimeout(() => {
    soon = 0;
    refresh();
  }, 80);
}
