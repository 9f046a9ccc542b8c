// The start of every page.
import { countDown } from "./time.js";
import { refresh, follow, watchFreeze } from "./live.js";
import { signIn, goOn, signOut, act } from "./act.js";

countDown();
const login = document.getElementById("login");
if (login) {
  login.addEventListener("submit", signIn);
  goOn(login);
}
document.getElementById("sign-out")?.addEventListener("click", signOut);
// On the document, so that forms which come with a refresh are covered.
document.addEventListener("submit", act);
follow();
watchFreeze();

// A page that comes back from the browser's memory shows what was, and may be of a
// session that has ended.
addEventListener("pageshow", (event) => {
  if (event.persisted) refresh();
});
