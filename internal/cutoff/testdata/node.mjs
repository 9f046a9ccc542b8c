// node node.mjs MODULE FILE run|flush [TASK]: the outbox is kept in FILE.
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import * as play from "./play.js";

const [path, file, what, task] = process.argv.slice(2);
const storage = {
  load() {
    try {
      return readFileSync(file, "utf8");
    } catch (error) {
      if (error.code === "ENOENT") return null;
      throw error;
    }
  },
  save(text) {
    writeFileSync(file + ".new", text, { mode: 0o600 });
    renameSync(file + ".new", file);
  },
};
const module = await import(path);
const config = { baseUrl: process.env.SEIF_BASE_URL, token: process.env.SEIF_CLIENT_TOKEN, storage };
console.log(JSON.stringify(await play[what](module, config, task)));
