// Client of seif.http-turn.v1 for the component that invokes a model: it opens a
// turn, fetches context, and reports the outcome. It needs nothing but fetch and
// Web Crypto, and has no build step.
//
//   import { SeifClient } from "./contextclient.js";
//   const client = SeifClient.fromEnvironment();
//   const answer = await client.run(question, (context) => askModel(context.text, question));
//
// The bearer token belongs to the component that delivers context: never put it,
// and so never this module with a token, into code that a browser gets from you,
// into prompts, source control or logs. The module runs in browsers' engines too,
// because workers and desktop programs are made of them.
//
// What a turn proves is that context was handed to the HTTP response and what the
// application then reported; it says nothing of what a model read or understood.

const PROTOCOL_TOOL = /^mcp__seif__[a-z0-9_]{1,64}$/;
const TOOL_USE_ID = /^[A-Za-z0-9_.:-]{1,128}$/;
const TURN_ID = /^trn_[A-Za-z0-9_-]{1,64}$/;
const STATUSES = ["completed", "cancelled", "failed"];
const MAX_NOTE = 2000; // characters that the server takes; it keeps 500
const MAX_ANSWER = 16 << 20; // bytes

/** The outbox holds at most so many reports, each for at most so many milliseconds. */
export const OUTBOX_ENTRIES = 100;
export const OUTBOX_AGE = 24 * 60 * 60 * 1000;
const FIRST_WAIT = 500;
const LONGEST_WAIT = 60 * 1000;

const START_ATTEMPTS = 3;
const CLOSE_WITHIN = 2 * 1000; // a process that ends does not wait for a server that hangs
const GRACE = 1000; // how much longer than a request run waits for its report to be put away

/**
 * SeifError is a request that was refused or not answered. status is 0 when no
 * answer came, else the HTTP status; reasonCode is that of the problem, or "";
 * errors say what is wrong with the request, by place, such as
 * "body.task: expected length >= 1"; retryAfter is in milliseconds.
 */
export class SeifError extends Error {
  constructor(message, { status = 0, reasonCode = "", errors = [], retryAfter = 0, cause } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = "SeifError";
    this.status = status;
    this.reasonCode = reasonCode;
    this.errors = errors;
    this.retryAfter = retryAfter;
  }

  /**
   * temporary says whether the same request may succeed later. Every 4xx but 408,
   * 425, 429 and 409 idempotency_in_progress is final.
   */
  get temporary() {
    if (this.status < 400 || this.status >= 500) return true;
    return [408, 425, 429].includes(this.status) || (this.status === 409 && this.reasonCode === "idempotency_in_progress");
  }
}

/**
 * SeifClient speaks for one named client of one project.
 *
 * baseUrl   https://HOST/HANDLE/PROJECT, with /staging behind it for staging; http only on loopback
 * token     the client's bearer token
 * profile   is sent with every request, which the server refuses when the client is bound to another
 * fetch     what sends; the platform's by default. It must not repeat a request by itself
 * storage   where the outbox is kept: {load(), save(text), lock?(work)}; in memory by default. One
 *           storage belongs to one named client. load and save that return promises need lock, which
 *           lets one work after the other do its part, of whoever has this storage; navigator.locks is
 *           the lock where there is no other. Without either, a storage may be shared within one thread alone
 * onTrouble is told, as an Error without the token, that a call has no turn or no context, and what
 *           could not be reported; console.warn of its message by default. What it throws is warned of,
 *           and nobody waits for what it returns
 * timeout   of one request, and of one access to the storage, in milliseconds; five seconds by default
 * startWithin  of the start of a turn with all its attempts and the time between them, in milliseconds;
 *           five seconds by default. One attempt takes half of it at most
 * clock, later and random are the platform's time and chance; tests replace them. later(ms, work, idle)
 *           returns what cancels it; idle waiting is the outbox's
 */
export class SeifClient {
  #base;
  #token;
  #profile;
  #fetch;
  #timeout;
  #startWithin;
  #withoutTurns = false; // it was told that this is a client without the opt-in
  #volatile;
  #clock;
  #later;
  #random;
  #trouble;
  #tokenForm; // finds the token in what somebody else says
  #outbox;

  constructor({
    baseUrl, token, profile, fetch = globalThis.fetch, storage = memoryStorage(), onTrouble = warn,
    timeout = 5000, startWithin = 5000, clock = Date.now, later = laterOf, random = Math.random,
  }) {
    this.#base = checkedBase(baseUrl);
    if (token === undefined || token === "") throw new TypeError("contextclient: the token is not set");
    if (typeof token !== "string" || !/^[\x21-\x7e]{1,512}$/.test(token)) throw new TypeError("contextclient: the token is not one");
    this.#token = token;
    this.#profile = profile;
    this.#fetch = (...of) => fetch(...of); // browsers want no other receiver
    this.#timeout = timeout;
    this.#startWithin = startWithin;
    this.#volatile = storage.volatile === true;
    this.#clock = clock;
    this.#later = later;
    this.#random = random;
    this.#trouble = telling(onTrouble);
    this.#tokenForm = parted(token);
    this.#outbox = new Outbox({
      base: this.#base, storage, clock, later, random, trouble: this.#trouble, within: timeout,
      send: (entry, signal) => this.#report(entry, signal),
    });
  }

  /** fromEnvironment reads SEIF_BASE_URL and SEIF_CLIENT_TOKEN. */
  static fromEnvironment(more = {}, environment = globalThis.process?.env ?? {}) {
    const config = { baseUrl: environment.SEIF_BASE_URL, token: environment.SEIF_CLIENT_TOKEN, ...more };
    for (const [member, name] of [["baseUrl", "SEIF_BASE_URL"], ["token", "SEIF_CLIENT_TOKEN"]]) {
      if (config[member] === undefined || config[member] === "") throw new TypeError(`contextclient: ${name} is not set`);
    }
    return new SeifClient(config);
  }

  /**
   * run starts a turn, fetches context for the task, awaits modelCall(context) and
   * reports how that ended. It returns or throws what modelCall does, whatever
   * becomes of the turn, the context and the report.
   *
   * The context has turn (null when none could be started), text ("" when there is
   * none), verdict, items, interaction, and problems: the errors of start and
   * compass, which onTrouble is told too. It is for modelCall to decide whether to
   * go on without a turn or without context. An error after signal has been aborted
   * is reported as cancelled, every other one as failed.
   *
   * A server that hangs delays modelCall by startWithin when it takes no start, and
   * else by one timeout; the end of run by one timeout more, and by a second more than
   * that when the storage hangs too. The report goes its way then, and onTrouble is told.
   */
  async run(task, modelCall, { clientRef, signal } = {}) {
    const context = await this.#prepare(task, clientRef, signal);
    let answer;
    try {
      answer = await modelCall(context);
    } catch (error) {
      await this.#close(context.turn, signal?.aborted ? "cancelled" : "failed");
      throw error;
    }
    await this.#close(context.turn, "completed");
    return answer;
  }

  async #prepare(task, clientRef, signal) {
    signal?.throwIfAborted();
    const context = { turn: null, text: "", verdict: "", items: [], interaction: null, problems: [] };
    try {
      context.turn = await this.start({ clientRef, signal });
    } catch (error) {
      signal?.throwIfAborted();
      context.problems.push(error);
      // Without the opt-in there is context, and no turn. With it, context without a
      // turn is refused.
      if (!["turn_protocol_not_enabled", "named_client_required"].includes(error.reasonCode)) {
        this.#trouble(about("the model is called without a turn and without context", error));
        return context;
      }
      if (!this.#withoutTurns) this.#trouble(about("this client's calls have context and no turn", error));
      this.#withoutTurns = true;
    }
    try {
      const { text = "", verdict = "", items = [], interaction } = await (context.turn ?? this).compass(task, { signal });
      Object.assign(context, { text, verdict, items, interaction });
    } catch (error) {
      context.problems.push(error);
      if (!signal?.aborted) this.#trouble(about("the model is called without context", error));
    }
    if (signal?.aborted) {
      await this.#close(context.turn, "cancelled");
      signal.throwIfAborted();
    }
    return context;
  }

  // close reports how a call ended. It never throws, and has its time.
  async #close(turn, status) {
    if (turn === null) return;
    let cancel = () => {};
    const late = new Promise((resolve) => {
      cancel = this.#later(this.#timeout + GRACE, () => {
        this.#trouble(new Error(`contextclient: the turn ${turn.id} is not known to be reported as ${status}: the storage of the outbox takes too long`));
        resolve();
      });
    });
    await Promise.race([this.#reported(turn, status), late]);
    cancel();
  }

  async #reported(turn, status) {
    try {
      const { queued, why } = await turn.complete(status);
      if (!queued) return;
      const last = this.#volatile ? ", and is not unless flush or close sends it before the process ends" : "";
      this.#trouble(about(`the turn ${turn.id} is not reported as ${status} yet${last}: the report waits in the outbox`, why));
    } catch (error) {
      this.#trouble(error);
    }
  }

  /**
   * start opens a turn. It asks again with the same key while no answer comes, three
   * times in all and within startWithin; nothing of the turn has been handed out until
   * it returns.
   */
  async start({ clientRef, signal } = {}) {
    const key = randomKey();
    const body = JSON.stringify(clientRef === undefined ? {} : { clientRef });
    const end = this.#clock() + this.#startWithin;
    for (let attempt = 1; ; attempt++) {
      const within = Math.min(this.#startWithin / 2, end - this.#clock());
      try {
        const { turn } = await this.#send("turns/start", { body, key, signal, within, accept: (answer) => TURN_ID.test(answer.turn?.id ?? "") });
        return new SeifTurn(this.#door, turn);
      } catch (error) {
        const wait = Math.max(error.retryAfter ?? 0, backoff(attempt, this.#random));
        if (!(error instanceof SeifError) || !error.temporary || attempt === START_ATTEMPTS || this.#clock() + wait >= end) throw error;
        await pause(this.#later, wait, signal);
      }
    }
  }

  /** turn is the turn with this id, which somebody else has started: SEIF_TURN_ID. */
  turn(id) {
    if (!TURN_ID.test(id ?? "")) throw new TypeError("contextclient: not the id of a turn");
    return new SeifTurn(this.#door, { id });
  }

  // The tools outside a turn, for a client without the opt-in.
  compass(task, options) { return this.#call("compass", { task }, options); }
  resolve(ref, options) { return this.#call("resolve", { ref }, options); }
  find(query, { limit, ...options } = {}) { return this.#call("find", { query, limit }, options); }
  why(of, options) { return this.#call("why", of, options); }
  reportGap(gap, options) { return this.#call("report-gap", gap, options); }
  test(expectation, options) { return this.#call("test", expectation, options); }
  doctor(options) { return this.#call("doctor", {}, options); }

  /**
   * flush sends what waits in the outbox now, each report at most once, and returns how many
   * wait still. Call it after a process starts with a storage; at its end there is close.
   */
  flush() { return this.#outbox.flush(); }

  /** pending returns how many reports wait. */
  pending() { return this.#outbox.pending(); }

  /**
   * close is for the end of a process: it sends what waits in the outbox, for within
   * milliseconds at most and the time of the storage, tells onTrouble what is lost
   * with the process's memory or waits in the storage, and ends the waiting. Nothing
   * is reported afterwards.
   */
  async close({ within = CLOSE_WITHIN } = {}) {
    const { left, why } = await this.#outbox.close(within);
    const what = this.#volatile ? "lost with this process" : "waiting in the storage";
    if (left > 0) this.#trouble(about(`reports that are not delivered at the end: ${left}, ${what}`, why));
  }

  // What a turn may do through its client.
  #door = {
    call: (tool, body, options) => this.#call(tool, body, options),
    queue: async (id, path, report) => {
      const body = JSON.stringify(report);
      if (body.includes(this.#token)) throw new TypeError("contextclient: the report holds the token");
      return this.#outbox.add({ turn: id, path, body, key: randomKey() });
    },
  };

  // call asks a tool. When it hears that the Build is being opened, which is no delivery, it asks
  // again, once, after the server's Retry-After, if all of it is within timeout.
  async #call(tool, body, { signal, turn } = {}) {
    const request = {
      body: JSON.stringify(body), turn, signal,
      accept: (answer) => typeof answer.interaction?.id === "string" && (turn === undefined || answer.turnId === turn) && (tool !== "compass" || isCompass(answer)),
    };
    const end = this.#clock() + this.#timeout;
    try {
      return await this.#send(tool, request);
    } catch (error) {
      const wait = error?.retryAfter ?? 0;
      if (error?.reasonCode !== "build_opening" || wait === 0 || this.#clock() + wait >= end) throw error;
      await pause(this.#later, wait, signal);
      return this.#send(tool, { ...request, within: end - this.#clock() });
    }
  }

  async #report(entry, signal) {
    const of = (answer) => entry.path.endsWith("/complete") ? answer.receipt : answer.observation;
    try {
      return of(await this.#send(entry.path, { body: entry.body, key: entry.key, signal, accept: (answer) => of(answer)?.turnId === entry.turn }));
    } catch (error) {
      if (error instanceof SeifError) throw error;
      throw new SeifError(`contextclient: ${entry.path}: no answer`, { cause: error }); // it was closed meanwhile
    }
  }

  // send sends one request once. An answer counts only if it is whole and is the
  // server's: a 200 of something on the way is none.
  async #send(path, { body, key, turn, signal, accept, within = this.#timeout }) {
    const headers = { authorization: `Bearer ${this.#token}`, "content-type": "application/json" };
    if (this.#profile !== undefined) headers["x-seif-profile"] = this.#profile;
    if (key !== undefined) headers["idempotency-key"] = key;
    if (turn !== undefined) headers["x-seif-turn-id"] = turn;
    const late = new AbortController();
    const cancel = this.#later(Math.min(within, this.#timeout), () => late.abort(new Error("no answer in time")));
    const leave = () => late.abort(signal.reason);
    signal?.addEventListener("abort", leave);
    try {
      signal?.throwIfAborted();
      const exchange = async () => {
        const response = await this.#fetch(`${this.#base}/context/${path}`, {
          method: "POST", headers, body, signal: late.signal,
          redirect: "manual", credentials: "omit", cache: "no-store", referrerPolicy: "no-referrer",
        });
        return { response, answer: parsed(await read(response)) };
      };
      // A fetch that does not look at its signal is left alone.
      const gone = new Promise((_, reject) => late.signal.addEventListener("abort", () => reject(late.signal.reason)));
      const { response, answer } = await Promise.race([exchange(), gone]);
      if (response.ok && answer !== undefined && accept(answer)) return answer;
      throw this.#refused(path, response, answer);
    } catch (error) {
      if (error instanceof SeifError) throw error;
      signal?.throwIfAborted();
      throw new SeifError(`contextclient: ${path}: no answer: ${this.#shown(String(error?.cause?.message || error?.message))}`, { cause: this.#cause(error) });
    } finally {
      cancel();
      signal?.removeEventListener("abort", leave);
    }
  }

  #refused(path, response, problem) {
    if (response.ok || response.status < 400) { // a redirect too: the token goes nowhere else
      return new SeifError(`contextclient: ${path}: status ${response.status} without the answer of this protocol`, { status: response.status });
    }
    const told = (member) => typeof problem?.[member] === "string" ? this.#shown(problem[member]) : "";
    const reasonCode = told("reasonCode");
    const seconds = Number(response.headers.get("retry-after") ?? 0);
    const errors = (Array.isArray(problem?.errors) ? problem.errors : []).slice(0, 20).map((e) => this.#shown(`${e?.location}: ${e?.message}`));
    return new SeifError(
      `contextclient: ${path}: ${[response.status, reasonCode, told("detail"), errors.join("; ")].filter(Boolean).join(" ")}`,
      { status: response.status, reasonCode, errors, retryAfter: seconds > 0 ? seconds * 1000 : 0 },
    );
  }

  // shown is text of somebody else that may stand in an error: printable, short, without the token, which
  // is looked for when nothing is taken out any more that may have parted it.
  #shown(text) {
    return text.replace(/[^\p{L}\p{M}\p{N}\p{P}\p{S} ]/gu, "").replace(this.#tokenForm, "[token]").slice(0, 500);
  }

  // cause is what an error of somebody else says, and nothing that it holds: a fetch may say what it
  // was to send.
  #cause(error, depth = 3) {
    if (!(error instanceof Error) || depth === 0) return undefined;
    const cause = this.#cause(error.cause, depth - 1);
    const said = new Error(this.#shown(String(error.message)), cause === undefined ? undefined : { cause });
    said.name = this.#shown(String(error.name));
    if (typeof error.code === "string") said.code = this.#shown(error.code);
    return said;
  }
}

/**
 * SeifTurn is an open turn. observe and complete are reports: they are kept in the
 * outbox, sent once at once, and again with the same key until the server has
 * answered. They return {queued: true, why} while that is outstanding, why being the last error
 * or undefined when an older report of the turn has to go first, else the server's
 * answer, and throw when the server refuses or the outbox cannot take them.
 */
export class SeifTurn {
  #door;

  constructor(door, { id, status = "", expiresAt = "" }) {
    this.#door = door;
    this.id = id;
    this.status = status; // when it was started
    this.expiresAt = expiresAt;
  }

  compass(task, options) { return this.#call("compass", { task }, options); }
  resolve(ref, options) { return this.#call("resolve", { ref }, options); }
  find(query, { limit, ...options } = {}) { return this.#call("find", { query, limit }, options); }
  why(of, options) { return this.#call("why", of, options); }
  reportGap(gap, options) { return this.#call("report-gap", gap, options); }
  test(expectation, options) { return this.#call("test", expectation, options); }
  doctor(options) { return this.#call("doctor", {}, options); }

  #call(tool, body, options) { return this.#door.call(tool, body, { ...options, turn: this.id }); }

  /** observe reports that a tool of mcp__seif__ is about to be used, and nothing else of it. */
  async observe(tool, toolUseId) {
    if (!PROTOCOL_TOOL.test(tool)) throw new TypeError("contextclient: only tools of mcp__seif__ are observed");
    if (!TOOL_USE_ID.test(toolUseId)) throw new TypeError("contextclient: not an id of a tool use");
    const { answer, why } = await this.#door.queue(this.id, `turns/${this.id}/observations`, { event: "pre_tool_use", tool, toolUseId });
    return answer === undefined ? { queued: true, why } : { queued: false, observation: answer };
  }

  /** complete reports completed, cancelled or failed, with a technical note if any: no output, no personal data. */
  async complete(status, note) {
    if (!STATUSES.includes(status)) throw new TypeError("contextclient: the status is completed, cancelled or failed");
    if (note !== undefined && (typeof note !== "string" || [...note].length > MAX_NOTE)) throw new TypeError("contextclient: the note is too long");
    const { answer, why } = await this.#door.queue(this.id, `turns/${this.id}/complete`, note === undefined ? { status } : { status, note });
    return answer === undefined ? { queued: true, why } : { queued: false, receipt: answer };
  }
}

// Outbox keeps reports until the server has answered them. Those of one turn are sent
// one after the other, in their order, so that a completion never overtakes an
// observation. It never drops one to make room.
class Outbox {
  #base;
  #storage;
  #clock;
  #later;
  #random;
  #trouble;
  #send;
  #lanes = new Map(); // turn -> end of what is being sent of it
  #fates = new Map(); // key -> what became of a report whose caller still waits
  #why; // the newest reason why a report was not delivered
  #broken = new Map(); // turn -> before when nothing of it is tried, because the storage failed
  #working = Promise.resolve(); // the last access to the storage
  #within; // of one access, in milliseconds
  #lock; // lets work have the storage alone; undefined when there is none
  #cancel = () => {};
  #leaving = new AbortController(); // ends what is being sent when close has no time left
  #closed = false;

  constructor({ base, storage, clock, later, random, trouble, send, within }) {
    this.#base = base;
    this.#storage = storage;
    this.#within = within;
    this.#lock = storage.lock?.bind(storage) ?? (storage.volatile ? undefined : lockOfOrigin());
    if (this.#lock === undefined && [storage.load, storage.save].some((f) => f?.constructor?.name === "AsyncFunction")) throw new TypeError(NO_LOCK);
    this.#clock = clock;
    this.#later = later;
    this.#random = random;
    this.#trouble = trouble;
    this.#send = send;
  }

  // add queues a report, tries to send it once, and returns the server's answer, or why there is none
  // yet: undefined when something of its turn has to go first.
  async add(report) {
    if (this.#closed) throw new Error("contextclient: the client is closed");
    const now = this.#clock();
    await this.#change((all) => {
      if (all.length >= OUTBOX_ENTRIES) throw new Error("contextclient: the outbox is full");
      all.push({ ...report, base: this.#base, queuedAt: now, attempts: 0, notBefore: now });
    });
    this.#fates.set(report.key, {});
    try {
      // A completion is the last of its turn: it does not wait for the time of what goes first.
      await this.#lane(report.turn, report.path.endsWith("/complete"));
      const { answer, refusal, why } = this.#fates.get(report.key);
      if (refusal !== undefined) throw refusal;
      return { answer, why };
    } finally {
      this.#fates.delete(report.key);
    }
  }

  async flush() {
    await Promise.all([...new Set((await this.#mine()).map((e) => e.turn))].map((turn) => this.#lane(turn, true)));
    return this.pending();
  }

  async pending() { return (await this.#mine()).length; }

  // close flushes, and returns how many wait still and why the last of them did.
  async close(within) {
    this.#closed = true;
    this.#cancel();
    const cancel = this.#later(within, () => this.#leaving.abort(new Error("closed")));
    try {
      return { left: await this.flush(), why: this.#why };
    } catch (error) {
      this.#trouble(error);
      return { left: 0 };
    } finally {
      cancel();
    }
  }

  // lane sends what of a turn is due, after whatever of it is being sent. It never throws.
  #lane(turn, force) {
    const pass = (this.#lanes.get(turn) ?? Promise.resolve()).then(() => this.#pass(turn, force)).then(() => this.#broken.delete(turn), (error) => {
      this.#broken.set(turn, this.#clock() + LONGEST_WAIT);
      this.#trouble(error);
    });
    this.#lanes.set(turn, pass);
    return pass.then(() => {
      if (this.#lanes.get(turn) === pass) this.#lanes.delete(turn);
      return this.#arm();
    });
  }

  async #pass(turn, force) {
    for (;;) {
      const head = (await this.#mine()).find((e) => e.turn === turn);
      const now = this.#clock();
      if (head === undefined) return;
      if (now - head.queuedAt >= OUTBOX_AGE) {
        await this.#settle(head, { refusal: new SeifError(`contextclient: ${head.path}: not reported in 24 hours`) });
        continue;
      }
      if (!force && head.notBefore > now) return;
      try {
        await this.#settle(head, { answer: await this.#send(head, this.#leaving.signal) });
      } catch (error) {
        if (!(error instanceof SeifError)) throw error; // of the storage
        if (error.temporary || error.status === 401) { // a refused token says nothing about the report
          this.#why = error;
          if (this.#fates.has(head.key)) this.#fates.set(head.key, { why: error });
          await this.#postpone(head, error.retryAfter);
          return;
        }
        await this.#settle(head, { refusal: error });
      }
    }
  }

  // settle takes a report out, and tells its caller, or whoever is told of trouble, what became of it.
  async #settle({ key }, fate) {
    await this.#change((all) => {
      const i = all.findIndex((e) => e.key === key);
      if (i >= 0) all.splice(i, 1);
    });
    if (this.#fates.has(key)) this.#fates.set(key, fate);
    else if (fate.refusal !== undefined) this.#trouble(fate.refusal);
  }

  #postpone({ key }, retryAfter) {
    return this.#change((all) => {
      const entry = all.find((e) => e.key === key);
      if (entry === undefined) return; // another process has sent it
      entry.attempts++;
      entry.notBefore = this.#clock() + Math.max(backoff(entry.attempts, this.#random), Math.min(retryAfter, LONGEST_WAIT));
    });
  }

  // arm waits for the next report that becomes due and is not being sent. It never throws.
  async #arm() {
    try {
      const all = await this.#mine();
      const now = this.#clock();
      const heads = new Map();
      for (const e of all) {
        if (heads.has(e.turn) || this.#lanes.has(e.turn)) continue;
        const broken = this.#broken.get(e.turn) ?? 0;
        heads.set(e.turn, Math.max(e.notBefore, broken > now + LONGEST_WAIT ? 0 : broken));
      }
      this.#cancel();
      if (heads.size === 0 || this.#closed) return;
      const due = Math.min(...heads.values());
      this.#cancel = this.#later(Math.max(0, due - now), () => {
        const now = this.#clock();
        for (const [turn, at] of heads) if (at <= now) this.#lane(turn, false);
        if (due > now) this.#arm(); // the clock was set back
      }, true);
    } catch (error) {
      this.#trouble(error);
      this.#cancel();
      if (!this.#closed) this.#cancel = this.#later(LONGEST_WAIT, () => this.#arm(), true);
    }
  }

  async #mine() {
    return (await this.#change(() => {})).filter((e) => e.base === this.#base);
  }

  // change lets work edit the stored entries, alone, and returns them. A storage that does not answer
  // in time is an error: what has not been written by then is not.
  async #change(work) {
    let late = false;
    let cancel;
    const gone = new Promise((_, reject) => {
      cancel = this.#later(this.#within, () => {
        late = true;
        reject(new Error("contextclient: the storage of the outbox does not answer"));
      });
    });
    const done = this.#working.then(async () => {
      let all;
      const edit = () => late ? undefined : this.#edit(work, gone);
      if (this.#lock === undefined) all = await edit();
      else await this.#lock(async () => { all = await edit(); });
      if (all === undefined) throw new Error("contextclient: the lock of the outbox's storage let nobody in");
      return all;
    });
    this.#working = done.catch(() => {});
    try {
      return await Promise.race([done, gone]);
    } finally {
      cancel();
    }
  }

  // edit does all of its part at once where the storage returns no promises, so that nobody of the same
  // thread comes in between, whatever storage they have. Everybody else needs the lock.
  #edit(work, gone) {
    const change = (before) => {
      const all = entriesOf(before ?? "");
      const now = this.#clock();
      for (const e of all) { // the clock was set back
        e.queuedAt = Math.min(e.queuedAt, now);
        if (e.notBefore > now + LONGEST_WAIT) e.notBefore = now;
      }
      work(all);
      const after = JSON.stringify({ version: 1, entries: all });
      if (after === (before ?? "") || (all.length === 0 && !before)) return all;
      const saved = this.#storage.save(after);
      return isPromise(saved) ? this.#locked(saved).then(() => all) : all;
    };
    const before = this.#storage.load();
    return isPromise(before) ? Promise.race([this.#locked(before), gone]).then(change) : change(before);
  }

  // locked is what a storage has promised, which without a lock may be lost on the way.
  #locked(promise) {
    const own = Promise.resolve(promise);
    if (this.#lock !== undefined) return own;
    own.catch(() => {});
    throw new TypeError(NO_LOCK);
  }
}

const NO_LOCK = "contextclient: a storage whose load or save returns a promise needs lock(work)";

// lockOfOrigin lets one of all that run for an origin work at a time, where the engine can: in browsers.
function lockOfOrigin() {
  const locks = globalThis.navigator?.locks;
  return typeof locks?.request === "function" ? (work) => locks.request("contextclient.outbox", work) : undefined;
}

const isPromise = (value) => typeof value?.then === "function";

// entriesOf reads what save was given. Anything else is an error and stays as it is.
function entriesOf(text) {
  if (text === "") return [];
  const stored = parsed(text);
  const whole = (e) => ["turn", "path", "body", "key", "base"].every((m) => typeof e?.[m] === "string") &&
    ["queuedAt", "attempts", "notBefore"].every((m) => Number.isFinite(e[m]));
  if (stored?.version !== 1 || !Array.isArray(stored.entries) || !stored.entries.every(whole)) {
    throw new Error("contextclient: the storage of the outbox is unreadable");
  }
  return stored.entries;
}

/** memoryStorage keeps the outbox as long as the process lives. */
export function memoryStorage() {
  let kept = null;
  return { load: () => kept, save: (text) => { kept = text; }, volatile: true };
}

/** itemStorage keeps the outbox as one item of something with getItem and setItem. */
export function itemStorage(items, name = "contextclient.outbox") {
  return { load: () => items.getItem(name), save: (text) => items.setItem(name, text) };
}

// backoff is the time before the next attempt: doubled each time, a random part of it less.
function backoff(attempts, random) {
  const longest = Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** attempts);
  return longest / 2 + random() * longest / 2;
}

// about is an error that says what another one has led to.
function about(what, error) {
  if (error === undefined) return new Error(`contextclient: ${what}: an older report of the turn has to go first`);
  const { status, reasonCode, errors, retryAfter } = error;
  return new SeifError(`contextclient: ${what}: ${error.message.replace(/^contextclient: /, "")}`, { status, reasonCode, errors, retryAfter, cause: error });
}

// telling is onTrouble for those who must go on as they were, whatever it does.
function telling(onTrouble) {
  return (error) => {
    const failed = () => {
      try {
        warn(about("onTrouble failed, which was to be told", error));
      } catch {
        // The console itself fails: there is nobody left to tell.
      }
    };
    try {
      if (!(error instanceof Error)) error = new Error(`contextclient: ${typeof error === "string" ? error : "something was thrown that is no error"}`);
      Promise.resolve(onTrouble(error)).catch(failed);
    } catch {
      failed();
    }
  };
}

// parted finds a token, also one that something between its characters parts and a reader would put
// together again: spaces, marks, whatever is not of its alphabet.
function parted(token) {
  return new RegExp([...token].map((c) => `\\u{${c.codePointAt(0).toString(16)}}`).join("[^\\x21-\\x7e]*"), "gu");
}

// warn is where trouble goes that nobody listens to.
function warn(error) {
  console.warn(`contextclient: ${error.message.replace(/^contextclient: /, "")}`);
}

function checkedBase(baseUrl) {
  let url;
  try {
    url = new URL(baseUrl);
  } catch {
    throw new TypeError("contextclient: the base URL is not set or is not one: https://HOST/HANDLE/PROJECT");
  }
  const loopback = /^(localhost|127(\.\d+){3}|\[::1\])$/.test(url.hostname);
  if (url.protocol !== "https:" && !(url.protocol === "http:" && loopback)) throw new TypeError("contextclient: the base URL must be https; http is for loopback");
  if (url.username || url.password || url.search || url.hash) throw new TypeError("contextclient: the base URL has a host and a path, and nothing else");
  return url.origin + url.pathname.replace(/\/+$/, "");
}

// randomKey is an idempotency key of 128 random bits.
function randomKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");
}

// isCompass says whether an answer has the forms that a model's call may rely on.
function isCompass({ text = "", verdict = "", items = [] }) {
  return typeof text === "string" && typeof verdict === "string" && Array.isArray(items);
}

function parsed(text) {
  try {
    const value = JSON.parse(text);
    return typeof value === "object" && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}

async function read(response) {
  if (response.body === null) return "";
  const decoder = new TextDecoder();
  let text = "";
  let size = 0;
  for (const reader = response.body.getReader(); ;) {
    const { done, value } = await reader.read();
    if (done) return text + decoder.decode();
    size += value.length;
    if (size > MAX_ANSWER) {
      await reader.cancel();
      throw new Error(`the answer has more than ${MAX_ANSWER} bytes`);
    }
    text += decoder.decode(value, { stream: true });
  }
}

// laterOf lets work wait. In Node idle waiting does not keep the process alive.
function laterOf(ms, work, idle = false) {
  const timer = setTimeout(work, ms);
  if (idle) timer.unref?.();
  return () => clearTimeout(timer);
}

async function pause(later, ms, signal) {
  signal?.throwIfAborted();
  await new Promise((resolve, reject) => {
    const leave = () => {
      cancel();
      reject(signal.reason);
    };
    const cancel = later(ms, () => {
      signal?.removeEventListener("abort", leave);
      resolve();
    });
    signal?.addEventListener("abort", leave, { once: true });
  });
}
