// The end of an approval is said where it is read out: a minute before, and when it came.
import { now } from "./time.js";
import { update } from "./incident-api.js";

const minute = 60_000;

let was = ""; // the state that was seen last

function state() {
  const { approval, ends } = document.getElementById("status").dataset;
  if (approval !== "active") return approval;
  const left = Number(ends) - now();
  return left <= 0 ? "ending" : left <= minute ? "soon" : "active";
}

function look() {
  const is = state();
  if (is === "ending") update(); // whether it has ended is the server's to say
  if (is === was || is === "ending") return;
  const told = { soon: "One minute or less is left of the approval.", expired: was === "" ? "" : "The approval has ended. An execution will be refused until it is approved again." };
  document.getElementById("expiry").textContent = told[is] ?? "";
  was = is;
}

// watchExpiry begins.
export function watchExpiry() {
  look();
  setInterval(look, 1_000);
}
