// Time as the server sees it. A page says when it was made; from there on it counts
// with a clock that nobody can set. The request's beginning stands for the moment at
// which the page was made, so that what is left is never shown too long.

let made = 0; // server's time, in milliseconds, of the page that is shown
let at = 0; // performance.now() when that page was asked for

export function setClock(now, asked) {
  if (now > 0) {
    made = now;
    at = asked;
  }
}

// now returns the server's time in milliseconds, or 0 when the page has none.
export function now() {
  return made === 0 ? 0 : made + (performance.now() - at);
}

function left(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const part = (n) => String(n).padStart(2, "0");
  const minutes = Math.floor(seconds / 60);
  return minutes >= 60 ? `${Math.floor(minutes / 60)}:${part(minutes % 60)}:${part(seconds % 60)}` : `${minutes}:${part(seconds % 60)}`;
}

// tick writes how long is left, and closes what may no longer be done. Whether it may
// is decided by the server all the same.
export function tick() {
  const moment = now();
  if (moment === 0) return;
  for (const element of document.querySelectorAll("time[data-until]")) {
    const rest = Number(element.dataset.until) - moment;
    const text = rest > 0 ? left(rest) : "0:00, ended";
    if (element.textContent !== text) element.textContent = text;
    element.classList.toggle("soon", rest < 60_000);
  }
  for (const button of document.querySelectorAll("button[data-until]")) {
    if (!button.closest("[aria-busy]")) button.disabled = Number(button.dataset.until) <= moment;
  }
}

export function countDown() {
  const main = document.getElementById("main");
  setClock(Number(main.dataset.now), performance.getEntriesByType("navigation")[0]?.requestStart ?? 0);
  tick();
  setInterval(tick, 250);
}
