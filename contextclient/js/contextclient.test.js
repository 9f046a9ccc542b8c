// Run with: node --test
import assert from "node:assert/strict";
import { inspect } from "node:util";
import test from "node:test";
import { OUTBOX_AGE, OUTBOX_ENTRIES, SeifClient, SeifError, itemStorage, memoryStorage } from "./contextclient.js";

const baseUrl = "https://context.example/acme/support";
const token = "seif_" + "s3cr3t".repeat(7) + "x";
const turnId = "trn_0190c2f0a1b27c3d8e4f5a6b7c8d9e0f";

// World is a server as far as its answers go, and a time that stands until it is moved.
class World {
  requests = [];
  troubles = [];
  answers = {}; // what the last part of a path answers: [status, body, headers], or an Error; the right answer by default
  now = Date.UTC(2030, 0, 1);
  timers = new Set();

  client(more = {}) {
    return new SeifClient({
      baseUrl, token, fetch: (url, init) => this.fetch(url, init), onTrouble: (e) => this.troubles.push(e),
      clock: () => this.now, random: () => 0.5,
      later: (ms, work, idle) => {
        const timer = { at: this.now + ms, work, idle };
        this.timers.add(timer);
        return () => this.timers.delete(timer);
      },
      ...more,
    });
  }

  async fetch(url, init) {
    const path = url.slice(baseUrl.length);
    const request = { url, path, ...init, json: JSON.parse(init.body), key: init.headers["idempotency-key"] };
    this.requests.push(request);
    const name = path.split("/").at(-1);
    const usual = {
      start: [201, { turn: { id: turnId, status: "OPEN", expiresAt: "2030-01-01T00:15:00Z" } }],
      observations: [201, { observation: { id: "o1", turnId } }],
      complete: [200, { receipt: { turnId, reported: request.json.status } }],
    }[name] ?? [200, { interaction: { id: "int_1", tool: name }, turnId: init.headers["x-seif-turn-id"] ?? null, verdict: "covered", text: "Returns within 30 days.", items: [{ ref: "returns" }] }];
    let answer = this.answers[name] ?? usual;
    if (typeof answer === "function") answer = answer(request) ?? usual;
    if (answer instanceof Error) throw answer;
    const [status, body, headers = { "content-type": "application/json" }] = answer;
    return new Response(typeof body === "string" ? body : JSON.stringify(body), { status, headers });
  }

  // pass moves time, and lets go what was waiting.
  async pass(ms) {
    this.now += ms;
    for (const timer of [...this.timers]) {
      if (timer.at <= this.now && this.timers.delete(timer)) timer.work();
    }
    await settled();
  }

  of(name) { return this.requests.filter((r) => r.path.endsWith("/" + name)); }
}

// settled lets everything that is not waiting for time run to its end.
const settled = async () => { for (let i = 0; i < 20; i++) await new Promise(setImmediate); };

const problem = (status, reasonCode, headers) => [status, { status, reasonCode, detail: "no" }, headers];
const lost = () => new TypeError("fetch failed");

test("a call is started, given context, and reported as it ended", async () => {
  const abort = new AbortController();
  const failure = new Error("the model is away");
  for (const [status, call, signal] of [
    ["completed", () => "the answer"],
    ["failed", () => { throw failure; }],
    ["cancelled", () => { abort.abort(); throw failure; }, abort.signal],
  ]) {
    const w = new World();
    let given;
    const run = w.client().run("How do I return it?", (context) => { given = { ...context, before: w.requests.length }; return call(); }, { clientRef: "ticket", signal });
    if (status === "completed") assert.equal(await run, "the answer");
    else await assert.rejects(run, (e) => e === failure);
    assert.deepEqual(w.requests.map((r) => r.path), ["/context/turns/start", "/context/compass", `/context/turns/${turnId}/complete`]);
    assert.equal(given.before, 2);
    assert.equal(given.text, "Returns within 30 days.");
    assert.deepEqual(given.problems, []);
    const [start, compass, complete] = w.requests;
    assert.deepEqual(start.json, { clientRef: "ticket" });
    assert.deepEqual(compass.json, { task: "How do I return it?" });
    assert.equal(compass.headers["x-seif-turn-id"], turnId);
    assert.equal(compass.key, undefined);
    assert.deepEqual(complete.json, { status });
    assert.match(start.key, /^[0-9a-f]{32}$/);
    assert.match(complete.key, /^[0-9a-f]{32}$/);
    assert.notEqual(start.key, complete.key);
    for (const r of w.requests) {
      assert.equal(r.method, "POST");
      assert.equal(r.headers.authorization, "Bearer " + token);
      assert.equal(r.headers["content-type"], "application/json");
      assert.equal(r.redirect, "manual");
      assert.equal(r.credentials, "omit");
    }
  }
});

test("a report that fails is neither a failed call nor lost", async () => {
  const w = new World();
  const client = w.client();
  w.answers.complete = lost();
  assert.equal(await client.run("task", () => "the answer"), "the answer");
  assert.equal(await client.pending(), 1);
  await w.pass(749); // half a second to a second, and chance is in the middle
  assert.equal(w.of("complete").length, 1);
  w.answers.complete = [503, ""];
  await w.pass(1);
  assert.equal(w.of("complete").length, 2);
  delete w.answers.complete;
  await w.pass(1500);
  assert.equal(await client.pending(), 0);
  const sent = w.of("complete");
  assert.equal(sent.length, 3);
  assert.equal(new Set(sent.map((r) => r.key)).size, 1);
  assert.equal(new Set(sent.map((r) => r.body)).size, 1);
  assert.deepEqual(sent[0].json, { status: "completed" });
  assert.deepEqual(w.troubles.map((e) => e.message), [
    `contextclient: the turn ${turnId} is not reported as completed yet, and is not unless flush or close sends it before the process ends: ` +
    `the report waits in the outbox: turns/${turnId}/complete: no answer: fetch failed`,
  ]);
});

test("the wait doubles up to a minute, and Retry-After is obeyed", async () => {
  const w = new World();
  const client = w.client();
  const turn = await client.start();
  w.answers.complete = lost();
  assert.equal((await turn.complete("completed")).queued, true);
  for (const [i, wait] of [750, 1500, 3000, 6000, 12000, 24000, 45000, 45000].entries()) {
    await w.pass(wait - 1);
    assert.equal(w.of("complete").length, i + 1);
    await w.pass(1);
    assert.equal(w.of("complete").length, i + 2);
  }
  w.answers.complete = problem(429, "limit_reached", { "retry-after": "50" });
  await w.pass(45000);
  await w.pass(49999);
  assert.equal(w.of("complete").length, 10);
  await w.pass(1);
  assert.equal(w.of("complete").length, 11);
  await client.close();
  assert.equal([...w.timers].length, 0);
});

test("a start is repeated with its key, three times in all, before anything is handed out", async () => {
  const w = new World();
  let tries = 0;
  w.answers.start = () => (++tries < 3 ? lost() : undefined);
  const client = w.client();
  const run = client.run("task", () => w.of("start").length);
  for (let i = 0; i < 3; i++) { await settled(); await w.pass(2000); }
  assert.equal(await run, 3);
  assert.equal(new Set(w.of("start").map((r) => r.key)).size, 1);
  assert.equal(w.of("complete").length, 1);
});

test("without a turn the call goes on and is told so", async () => {
  for (const [answer, attempts] of [[lost(), 3], [problem(401, "token_invalid"), 1], [problem(429, "limit_reached", { "retry-after": "600" }), 1]]) {
    const w = new World();
    w.answers.start = answer;
    const run = w.client().run("task", (context) => {
      delete w.answers.start; // the server is back, and nothing is started behind the model's back
      return context;
    });
    for (let i = 0; i < 3; i++) { await settled(); await w.pass(2000); }
    const context = await run;
    assert.equal(context.turn, null);
    assert.equal(context.text, "");
    assert.equal(context.problems.length, 1);
    assert.ok(context.problems[0] instanceof SeifError);
    assert.equal(w.troubles.length, 1);
    assert.match(w.troubles[0].message, /without a turn and without context/);
    assert.equal(w.troubles[0].reasonCode, context.problems[0].reasonCode);
    assert.deepEqual(w.requests.map((r) => r.path), Array(attempts).fill("/context/turns/start"));
  }
});

test("a client without the opt-in gets context and no turn", async () => {
  const w = new World();
  w.answers.start = problem(403, "turn_protocol_not_enabled");
  const client = w.client();
  const context = await client.run("task", (c) => c);
  assert.equal(context.turn, null);
  assert.equal(context.text, "Returns within 30 days.");
  assert.equal(context.problems[0].reasonCode, "turn_protocol_not_enabled");
  await client.run("task", () => {});
  assert.deepEqual(w.requests.map((r) => r.path), ["/context/turns/start", "/context/compass", "/context/turns/start", "/context/compass"]);
  assert.deepEqual(w.troubles.map((e) => e.reasonCode), ["turn_protocol_not_enabled"]); // it is so for every call
  assert.equal(w.requests[1].headers["x-seif-turn-id"], undefined);
});

test("without context the call goes on in its turn, and compass is not repeated", async () => {
  const w = new World();
  w.answers.compass = lost();
  const context = await w.client().run("task", (c) => c);
  assert.equal(context.turn.id, turnId);
  assert.equal(context.text, "");
  assert.equal(context.problems.length, 1);
  assert.equal(w.of("compass").length, 1);
  assert.deepEqual(w.of("complete")[0].json, { status: "completed" });
  assert.match(w.troubles[0].message, /called without context/);
});

test("a caller who leaves before the model is asked has a cancelled turn", async () => {
  const w = new World();
  const abort = new AbortController();
  w.answers.compass = () => { abort.abort(new Error("left")); };
  await assert.rejects(w.client().run("task", () => assert.fail("the model was asked"), { signal: abort.signal }), /left/);
  assert.deepEqual(w.of("complete")[0].json, { status: "cancelled" });
});

test("which refusals end a report", async () => {
  const again = [[408, ""], [425, ""], [429, "limit_reached"], [401, "token_invalid"], [401, "token_missing"], [409, "idempotency_in_progress"], [500, ""], [502, ""], [503, "LEDGER_UNAVAILABLE"]];
  const final = [[400, "body_invalid"], [403, "turn_protocol_not_enabled"], [404, "turn_not_found"], [409, "turn_closed"], [409, "idempotency_conflict"], [410, "turn_expired"], [413, "too_large"]];
  for (const [status, code] of again) {
    const w = new World();
    w.answers.complete = problem(status, code);
    const client = w.client();
    assert.equal((await (await client.start()).complete("completed")).queued, true, code);
    assert.equal(await client.pending(), 1);
  }
  for (const [status, code] of final) {
    const w = new World();
    w.answers.complete = problem(status, code);
    const client = w.client();
    await assert.rejects((await client.start()).complete("completed"), (e) => e instanceof SeifError && e.status === status && e.reasonCode === code);
    assert.equal(await client.pending(), 0);
    assert.equal(await client.run("task", () => "the answer"), "the answer");
    assert.equal(w.troubles[0].reasonCode, code); // told, and in nobody's place
  }
});

test("an answer that is not the server's is none", async () => {
  for (const answer of [[200, "<html>please sign in</html>"], [200, { receipt: { turnId: "trn_other" } }], [200, { receipt: null }], [200, ""], [302, "", { location: "https://elsewhere.example/" }]]) {
    const w = new World();
    w.answers.complete = answer;
    const client = w.client();
    assert.equal((await (await client.start()).complete("completed")).queued, true);
    assert.equal(await client.pending(), 1);
  }
  const w = new World();
  w.answers.start = [200, { turn: { id: "../../admin" } }];
  const run = assert.rejects(w.client().start(), SeifError);
  for (let i = 0; i < 3; i++) { await settled(); await w.pass(2000); }
  await run;
});

test("the reports of a turn keep their order, those of others do not wait", async () => {
  const w = new World();
  const client = w.client();
  const turn = await client.start();
  const other = client.turn("trn_other");
  w.answers.observations = lost();
  assert.equal((await turn.observe("mcp__seif__context_compass", "use-1")).queued, true);
  assert.equal((await turn.complete("completed")).queued, true);
  assert.equal(w.of("observations").length, 2); // a completion does not wait for the time of what goes first
  assert.equal(w.of("complete").length, 0);
  delete w.answers.observations;
  w.answers.complete = (r) => (r.path.includes("trn_other") ? [200, { receipt: { turnId: "trn_other" } }] : undefined);
  assert.equal((await other.complete("failed", "timed out")).queued, false);
  assert.deepEqual(w.of("complete")[0].json, { status: "failed", note: "timed out" });
  assert.equal(await client.flush(), 0);
  assert.deepEqual(w.requests.slice(-2).map((r) => r.path), [`/context/turns/${turnId}/observations`, `/context/turns/${turnId}/complete`]);
  assert.deepEqual(w.of("observations")[2].json, { event: "pre_tool_use", tool: "mcp__seif__context_compass", toolUseId: "use-1" });
  assert.equal(new Set(w.of("observations").map((r) => r.key)).size, 1);
});

test("the outbox is bounded in number and time, and drops nothing silently", async () => {
  const w = new World();
  const client = w.client();
  const turn = await client.start();
  w.answers.observations = lost();
  for (let i = 0; i < OUTBOX_ENTRIES; i++) assert.equal((await turn.observe("mcp__seif__find", `use-${i}`)).queued, true);
  await assert.rejects(turn.observe("mcp__seif__find", "one-more"), /full/);
  assert.equal(await client.pending(), 100);
  assert.equal(w.of("observations").length, 1); // what waits is not tried before its time, whatever comes after it
  assert.equal(await client.run("task", () => "the answer"), "the answer");
  assert.match(w.troubles[0].message, /full/);
  await client.close();

  const late = new World();
  late.answers.complete = lost();
  const patient = late.client();
  await (await patient.start()).complete("completed");
  late.now += OUTBOX_AGE - 1;
  assert.equal(await patient.flush(), 1);
  late.now += 1;
  assert.equal(await patient.flush(), 0);
  assert.equal(late.of("complete").length, 2);
  assert.match(late.troubles[0].message, /24 hours/);
});

test("a storage outlives its process, is changed alone, and holds no token", async () => {
  const items = new Map();
  let inside = 0;
  const storage = {
    ...itemStorage({ getItem: (name) => items.get(name) ?? null, setItem: (name, text) => items.set(name, text) }),
    lock: async (work) => {
      assert.equal(inside++, 0);
      try { return await work(); } finally { inside--; }
    },
  };
  const w = new World();
  w.answers.complete = lost();
  const before = w.client({ storage });
  const turns = [await before.start(), before.turn("trn_other")];
  await Promise.all(turns.map((turn) => turn.complete("completed")));
  await before.close();
  assert.match(w.troubles[0].message, /not delivered at the end: 2, waiting in the storage/);
  assert.equal(items.size, 1);
  assert.ok(!JSON.stringify([...items]).includes(token));

  delete w.answers.complete;
  w.answers.complete = (r) => [200, { receipt: { turnId: r.path.split("/")[3] } }];
  const elsewhere = w.client({ storage, baseUrl: baseUrl + "/staging" });
  assert.equal(await elsewhere.flush(), 0); // not its own
  const after = w.client({ storage });
  assert.equal(await after.pending(), 2);
  assert.equal(await after.flush(), 0);
  for (const turn of turns) {
    const sent = w.of("complete").filter((r) => r.path.includes(turn.id));
    assert.equal(sent.length, 3); // at once, at the end of the one process and in the next
    assert.equal(new Set(sent.map((r) => r.key)).size, 1);
  }
});

test("at the end what waits is sent once more, and what is lost is told", async () => {
  for (const storage of [memoryStorage(), itemStorage(new Map(), "x")]) {
    if (storage.volatile === undefined) Object.assign(storage, (({ load, save }) => ({ load, save }))(memoryStorage()));
    const w = new World();
    const client = w.client({ storage });
    w.answers.complete = problem(503, "LEDGER_UNAVAILABLE");
    await client.run("task", () => "the answer");
    w.troubles.length = 0;
    await client.close();
    assert.equal(w.of("complete").length, 2);
    assert.equal(w.troubles.length, 1);
    assert.match(w.troubles[0].message, storage.volatile ? /end: 1, lost with this process: .*503 LEDGER_UNAVAILABLE/ : /end: 1, waiting in the storage: .*503 LEDGER_UNAVAILABLE/);
    await assert.rejects(client.turn(turnId).complete("completed"), /closed/);

    const back = new World();
    back.answers.complete = lost();
    const again = back.client();
    await again.run("task", () => "the answer");
    delete back.answers.complete;
    back.troubles.length = 0;
    await again.close();
    assert.deepEqual(back.troubles, []);
    assert.equal(back.of("complete").length, 2);
  }
});

test("a server that hangs costs no more than it is given", async () => {
  const hangs = (w, ...names) => (url, init) => {
    if (!names.includes(url.split("/").at(-1))) return w.fetch(url, init);
    w.hung = (w.hung ?? 0) + 1;
    return new Promise((_, reject) => init.signal.addEventListener("abort", () => reject(init.signal.reason)));
  };
  const took = async (w, done) => {
    const { took, error } = await passing(w, done);
    assert.equal(error, undefined);
    return took;
  };
  for (const [names, more, before, after, close] of [
    [["start"], {}, 5000, 5000, 0],
    [["start"], { startWithin: 2000 }, 2000, 2000, 0],
    [["compass"], {}, 5000, 5000, 0],
    [["complete"], {}, 0, 5000, 2000],
    [["compass", "complete"], { timeout: 3000 }, 3000, 6000, 2000],
  ]) {
    const w = new World();
    const began = w.now;
    let called;
    const client = w.client({ fetch: hangs(w, ...names), ...more });
    assert.equal(await took(w, client.run("task", () => { called = w.now - began; })), after, names);
    assert.equal(called, before, names);
    if (names[0] === "start") assert.equal(w.hung, 2); // one attempt leaves time for another
    w.troubles.length = 0;
    assert.equal(await took(w, client.close()), close, names);
    assert.equal(w.troubles.length, close > 0 ? 1 : 0);
  }
});

test("a refused token keeps the report for the right one", async () => {
  const w = new World();
  w.answers.complete = problem(401, "token_invalid");
  const storage = memoryStorage();
  await w.client({ storage }).run("task", () => "the answer");
  assert.equal(w.troubles[0].reasonCode, "token_invalid");
  const client = w.client({ storage, token: "seif_the-next-one" });
  assert.equal(await client.flush(), 1);
  delete w.answers.complete;
  assert.equal(await client.flush(), 0);
  const sent = w.of("complete");
  assert.equal(new Set(sent.map((r) => r.key)).size, 1);
  assert.equal(sent.at(-1).headers.authorization, "Bearer seif_the-next-one");
});

test("what nobody listens to is a warning, without the token", async (t) => {
  for (const wrong of ["start", "compass"]) {
    const said = t.mock.method(console, "warn", () => {});
    const w = new World();
    w.answers[wrong] = [401, { reasonCode: "token_invalid", detail: `${token} opens nothing` }];
    await w.client({ onTrouble: undefined }).run("task", () => "the answer");
    assert.equal(said.mock.callCount(), 1);
    assert.match(said.mock.calls[0].arguments[0], /^contextclient: the model is called .*without context: .* 401 token_invalid \[token\] opens nothing$/);
    said.mock.restore();
  }
});

test("what is wrong with a request is in its error, by place", async () => {
  const w = new World();
  w.answers.why = [400, { reasonCode: "body_invalid", detail: "Correct what errors names.", errors: [{ location: "body", message: `${token} is no object` }] }];
  const error = await w.client().why("x").catch((e) => e);
  assert.equal(error.message, "contextclient: why: 400 body_invalid Correct what errors names. body: [token] is no object");
  assert.deepEqual(error.errors, ["body: [token] is no object"]);
});

test("a storage that fails costs a report and never the answer", async () => {
  const w = new World();
  const storage = { load: () => "what is this", save: () => assert.fail("it was overwritten") };
  assert.equal(await w.client({ storage }).run("task", () => "the answer"), "the answer");
  assert.match(w.troubles[0].message, /unreadable/);

  const full = new World();
  let broken = false;
  const memory = memoryStorage();
  const breaking = { load: memory.load, save: (text) => { if (broken) throw new Error("the disk is full"); memory.save(text); } };
  full.answers.complete = () => { broken = true; return lost(); };
  const client = full.client({ storage: breaking });
  assert.equal(await client.run("task", () => "the answer"), "the answer");
  assert.match(full.troubles[0].message, /disk is full/);
  await full.pass(59_999);
  assert.equal(full.of("complete").length, 1); // it does not turn in circles
  await full.pass(1);
  assert.equal(full.of("complete").length, 2);
});

// passing lets time go on until done is settled, a tenth of a second at a time, and says what came of it and when.
const passing = async (w, done) => {
  const began = w.now;
  let over = false;
  const outcome = done.then((value) => ({ value }), (error) => ({ error })).finally(() => { over = true; });
  for (await settled(); !over && w.now - began < 60_000; await settled()) await w.pass(100);
  return over ? { ...(await outcome), took: w.now - began } : { took: Infinity };
};

test("whatever is called for the protocol's sake, and however it fails, the answer and the error are the model's", async (t) => {
  t.mock.method(console, "warn", () => {});
  const never = () => new Promise(() => {});
  const failure = new Error("the model is away");
  const refused = (w) => { w.answers.complete = problem(409, "turn_closed"); };
  const only = (name, f) => (w) => (url, init) => (url.endsWith(name) ? f() : w.fetch(url, init));
  const throws = () => { throw new Error("in its place"); };
  for (const [what, within, more, prepare] of [
    ["onTrouble throws", 0, () => ({ onTrouble: throws }), refused],
    ["onTrouble throws of a start", 0, () => ({ onTrouble: throws }), (w) => { w.answers.start = problem(401, "token_invalid"); }],
    ["onTrouble throws of a compass", 0, () => ({ onTrouble: throws }), (w) => { w.answers.compass = lost(); }],
    ["onTrouble throws nothing", 0, () => ({ onTrouble: () => { throw undefined; } }), refused],
    ["onTrouble rejects", 0, () => ({ onTrouble: async () => throws() }), refused],
    ["onTrouble never settles", 0, () => ({ onTrouble: never }), refused],
    ["onTrouble is none", 0, () => ({ onTrouble: null }), refused],
    ["load throws", 0, () => ({ storage: { load: throws, save() {} } })],
    ["load throws nothing", 0, () => ({ storage: { load: () => { throw undefined; }, save() {} } })],
    ["load never settles", 5000, () => ({ storage: { load: never, save() {}, lock: (work) => work() } })],
    ["save never settles", 5000, () => ({ storage: { load: () => null, save: never, lock: (work) => work() } })],
    ["lock never settles", 5000, () => ({ storage: { load: () => null, save() {}, lock: never } })],
    ["lock lets nobody in", 0, () => ({ storage: { load: () => null, save() {}, lock: async () => {} } })],
    ["an access takes four seconds", 6000, (w) => ({ storage: { load: () => new Promise((resolve) => w.timers.add({ at: w.now + 4000, work: () => resolve(null) })), save() {}, lock: (work) => work() } })],
    ["fetch of a start does not look at its signal", 5000, (w) => ({ fetch: only("start", never)(w) })],
    ["fetch of a compass does not look at its signal", 5000, (w) => ({ fetch: only("compass", never)(w) })],
    ["fetch of a report does not look at its signal", 5000, (w) => ({ fetch: only("complete", never)(w) })],
    ["fetch throws nothing", 5000, (w) => ({ fetch: only("start", () => { throw undefined; })(w) })],
    ["a compass of other forms", 0, () => ({}), (w) => { w.answers.compass = [200, { interaction: { id: "i" }, turnId, text: 5, items: "none" }]; }],
  ]) {
    for (const call of [() => "the answer", () => { throw failure; }, () => { throw undefined; }]) {
      const w = new World();
      prepare?.(w);
      let calls = 0;
      const outcome = await passing(w, w.client(more(w)).run("task", (context) => {
        calls++;
        assert.equal(typeof context.text, "string", what);
        return call();
      }));
      assert.equal(calls, 1, what);
      assert.ok(outcome.took <= within, `${what}: ${outcome.took} ms, want ${within} at most`);
      const { took, ...came } = outcome;
      let expected;
      try { expected = { value: call() }; } catch (error) { expected = { error }; }
      assert.deepEqual(came, expected, what);
      if (!what.startsWith("onTrouble")) assert.ok(w.troubles.length > 0, what);
      for (const e of w.troubles) assert.ok(e instanceof Error, what);
      await w.pass(120_000); // what waits in the background fails as quietly
    }
  }
});

test("a storage that hung is asked again when it has recovered", async () => {
  const w = new World();
  const memory = memoryStorage();
  let hangs = true;
  const storage = { load: () => (hangs ? new Promise(() => {}) : memory.load()), save: memory.save, lock: (work) => work() };
  const client = w.client({ storage });
  assert.match((await passing(w, client.turn(turnId).complete("completed"))).error.message, /does not answer/);
  hangs = false;
  assert.equal((await passing(w, client.turn(turnId).complete("completed"))).value.queued, false);
});

test("what is said to be queued is in the storage, whoever else has it", async () => {
  const ids = ["trn_1", "trn_2", "trn_3"];
  const kept = (text) => JSON.parse(text).entries.map((e) => e.turn).sort();
  const complete = (clients) => Promise.all(clients.map((c, i) => c.turn(ids[i]).complete("completed")));
  const w = new World();
  w.answers.complete = lost();

  // Storages of their own on one thing that answers at once: nobody comes in between.
  const items = new Map();
  const own = () => itemStorage({ getItem: (name) => items.get(name) ?? null, setItem: (name, text) => items.set(name, text) });
  assert.deepEqual((await complete(ids.map(() => w.client({ storage: own() })))).map((r) => r.queued), [true, true, true]);
  assert.deepEqual(kept(items.get("contextclient.outbox")), ids);

  // One that takes its time, with a lock.
  let text = null;
  const turns = async (n) => { for (let i = 0; i < n; i++) await new Promise(setImmediate); };
  let last = Promise.resolve();
  const lock = (work) => (last = last.then(work, work));
  const slow = (more) => ({ load: async () => { await turns(2); return text; }, save: async (t) => { await turns(2); text = t; }, ...more });
  assert.deepEqual((await complete(ids.map(() => w.client({ storage: slow({ lock }) })))).map((r) => r.queued), [true, true, true]);
  assert.deepEqual(kept(text), ids);

  // Without a lock it is refused: at once where that can be seen, else before anything is said to be kept.
  assert.throws(() => w.client({ storage: slow() }), /needs lock/);
  const { load, save } = slow();
  for (const storage of [{ load: () => load(), save: () => {} }, { load: () => null, save: (t) => save(t) }]) {
    await assert.rejects(w.client({ storage }).turn("trn_1").complete("completed"), /needs lock/);
  }
  await turns(9);

  // Where the engine has locks for an origin, they are the lock.
  const before = Object.getOwnPropertyDescriptor(globalThis, "navigator");
  const names = new Set();
  Object.defineProperty(globalThis, "navigator", { configurable: true, value: { locks: { request: (name, work) => { names.add(name); return lock(work); } } } });
  try {
    text = null;
    assert.deepEqual((await complete(ids.map(() => w.client({ storage: slow() })))).map((r) => r.queued), [true, true, true]);
    assert.deepEqual(kept(text), ids);
    assert.deepEqual([...names], ["contextclient.outbox"]);
  } finally {
    if (before === undefined) delete globalThis.navigator;
    else Object.defineProperty(globalThis, "navigator", before);
  }
});

test("a clock that is set back lets no report wait for hours, and keeps none longer", async () => {
  const w = new World();
  const client = w.client();
  w.answers.complete = lost();
  assert.equal((await client.turn(turnId).complete("completed")).queued, true);
  const set = (back) => { // timers do not know of the clock
    w.now -= back;
    for (const timer of w.timers) timer.at -= back;
  };
  set(2 * 60 * 60 * 1000);
  await w.pass(750);
  await w.pass(0);
  assert.equal(w.of("complete").length, 2);
  await w.pass(OUTBOX_AGE);
  assert.equal(await client.pending(), 0);
  assert.match(w.troubles.at(-1).message, /24 hours/);

  // So it is with one that a failed storage has put off.
  const broken = new World();
  const memory = memoryStorage();
  let fails = true;
  const save = (text) => {
    if (fails && !text.includes(turnId)) throw new Error("the disk is full");
    memory.save(text);
  };
  const other = broken.client({ storage: { load: memory.load, save } });
  await other.turn(turnId).complete("completed");
  broken.now -= 2 * 60 * 60 * 1000;
  for (const timer of broken.timers) timer.at -= 2 * 60 * 60 * 1000;
  fails = false;
  await broken.pass(60_000);
  await broken.pass(0);
  assert.equal(await other.pending(), 0);
});

test("a token that something parts is put together by nobody", async () => {
  for (const between of ["", "\u200b", "\u00ad", "\u2060", "\ufeff", "\u202e", "\0", "\u001b", "\n", "\u2028", "\u00a0", " ", "\u034f", "\ufe0f", "\u0301", "\u{e0041}", "\ud800", "\u200b \u200b"]) {
    for (const at of [1, 5, 9, token.length - 1]) {
      const parts = token.slice(0, at) + between + token.slice(at);
      const w = new World();
      w.answers.doctor = [403, { reasonCode: "r" + parts, detail: "d" + parts, errors: [{ location: "body", message: parts }] }];
      const refused = await w.client().doctor().catch((e) => e);
      assert.equal(refused.message, "contextclient: doctor: 403 r[token] d[token] body: [token]", JSON.stringify(between));
      const thrown = Object.assign(new TypeError("dump of " + parts, { cause: Object.assign(new Error("bytes of " + parts), { code: "ECONNRESET" }) }), { headers: parts });
      const unanswered = await w.client({ fetch: async () => { throw thrown; } }).doctor().catch((e) => e);
      assert.equal(unanswered.cause.cause.code, "ECONNRESET");
      for (const e of [refused, unanswered]) {
        const shown = inspect(e, { depth: 9, showHidden: true }) + JSON.stringify(e);
        assert.ok(!shown.includes(token) && !shown.includes(parts) && !shown.includes(JSON.stringify(parts).slice(1, -1)), shown);
      }
    }
  }
});

test("an observation that is refused is told and dropped, and keeps nothing from going", async () => {
  const w = new World();
  w.answers.observations = problem(400, "body_invalid");
  const client = w.client();
  const turn = client.turn(turnId);
  await assert.rejects(turn.observe("mcp__seif__find", "sk-live-0123456789abcdef0123456789abcdef"), (e) => e.reasonCode === "body_invalid" && !e.temporary);
  assert.equal(await client.pending(), 0);
  assert.equal((await turn.complete("completed")).queued, false);
  assert.equal(w.of("observations").length, 1);
});

test("a call that finds the Build being opened is made once more when there is time", async () => {
  for (const [refusals, after, asked, text] of [[1, "2", 2, "Returns within 30 days."], [2, "2", 2, ""], [1, "5", 1, ""], [1, "0", 1, ""]]) {
    const w = new World();
    let left = refusals;
    w.answers.compass = () => (--left >= 0 ? problem(503, "build_opening", { "retry-after": after }) : undefined);
    const { value, took } = await passing(w, w.client().run("task", (context) => context.text));
    assert.equal(value, text);
    assert.equal(w.of("compass").length, asked);
    assert.equal(took, asked === 2 ? 2000 : 0);
    assert.equal(w.troubles.length, text === "" ? 1 : 0);
  }
});

test("https, or loopback", () => {
  const make = (url) => new SeifClient({ baseUrl: url, token });
  for (const url of ["https://h.example/a/b", "https://h.example/a/b/staging/", "http://localhost:8420/a/b", "http://127.0.0.1:1/a/b", "http://[::1]:1/a/b"]) make(url);
  for (const url of ["http://h.example/a/b", "http://127.0.0.1.example/a/b", "http://localhost.example/a/b", "ftp://localhost/a/b", "https://u:p@h.example/a/b", "https://h.example/a/b?x=1", "https://h.example/a/b#x", "", undefined, "acme"]) {
    assert.throws(() => make(url), TypeError, String(url));
  }
  for (const bad of [undefined, "", "two words", "line\nfeed"]) assert.throws(() => new SeifClient({ baseUrl, token: bad }), TypeError);
  assert.throws(() => SeifClient.fromEnvironment({}, {}), /SEIF_BASE_URL is not set/);
  assert.throws(() => SeifClient.fromEnvironment({}, { SEIF_BASE_URL: baseUrl, SEIF_CLIENT_TOKEN: "" }), /SEIF_CLIENT_TOKEN is not set/);
  SeifClient.fromEnvironment({}, { SEIF_BASE_URL: baseUrl, SEIF_CLIENT_TOKEN: token });
});

test("the token is in nothing that is printed", async () => {
  const w = new World();
  w.answers.complete = [403, { reasonCode: "x" + token, detail: `\u001b[2J${token} is not known` }];
  const client = w.client();
  const turn = await client.start();
  const error = await turn.complete("completed").catch((e) => e);
  assert.equal(error.message, `contextclient: turns/${turnId}/complete: 403 x[token] [2J[token] is not known`);
  for (const shown of [client, turn, error]) {
    assert.ok(!inspect(shown, { depth: 9, showHidden: true }).includes(token));
    assert.ok(!(JSON.stringify(shown) ?? "").includes(token));
  }
});

test("what is not of the protocol is not sent", async () => {
  const w = new World();
  const client = w.client();
  const turn = await client.start();
  await assert.rejects(turn.observe("Bash", "use-1"), TypeError);
  await assert.rejects(turn.observe("mcp__seif__find", "no spaces"), TypeError);
  await assert.rejects(turn.complete("done"), TypeError);
  await assert.rejects(turn.complete("failed", "x".repeat(2001)), TypeError);
  await assert.rejects(turn.complete("failed", `with ${token}`), TypeError);
  assert.throws(() => client.turn("../x"), TypeError);
  assert.equal(w.requests.length, 1);
  assert.equal(await client.pending(), 0);
});

test("the tools say what they are given", async () => {
  const w = new World();
  const client = w.client();
  const turn = await client.start();
  for (const t of [client, turn]) {
    await t.resolve("returns");
    await t.find("refund", { limit: 3 });
    await t.find("refund");
    await t.why({ ref: "returns" });
    await t.reportGap({ task: "exchange", detail: "nothing on it" });
    await t.test({ caseId: "c1" });
    await t.doctor();
  }
  const expected = [{ ref: "returns" }, { query: "refund", limit: 3 }, { query: "refund" }, { ref: "returns" }, { task: "exchange", detail: "nothing on it" }, { caseId: "c1" }, {}];
  assert.deepEqual(w.requests.map((r) => r.json), [{}, ...expected, ...expected]);
  assert.deepEqual(w.requests.map((r) => r.headers["x-seif-turn-id"]), [...Array(8).fill(undefined), ...Array(7).fill(turnId)]);
  w.answers.doctor = [200, { interaction: { id: "int_1" }, turnId: "trn_other" }];
  await assert.rejects(client.turn(turnId).doctor(), SeifError); // not of its turn
});

test("an answer that takes too long is none", async () => {
  const w = new World();
  const client = w.client({ fetch: (_, init) => new Promise((_, reject) => init.signal.addEventListener("abort", () => reject(init.signal.reason))) });
  const asked = assert.rejects(client.doctor(), (e) => e.status === 0 && e.temporary);
  await w.pass(10_000);
  await asked;
  const big = w.client({ fetch: async () => new Response(new Uint8Array((16 << 20) + 1)) });
  await assert.rejects(big.doctor(), (e) => e.status === 0 && /more than/.test(e.cause.message));
});
