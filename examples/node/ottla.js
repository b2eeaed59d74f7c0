// Starts brokers for tests. Each broker or cluster is a process of "ottla serve" with its own temporary directory, which ends with
// the test's process, even after SIGKILL. The command is $OTTLA, or "ottla" on the PATH, or "python3 -m ottla".
"use strict";

const { execFile, spawn, spawnSync } = require("node:child_process");
const { once } = require("node:events");
const { accessSync, closeSync, constants, mkdtempSync, openSync, readFileSync, rmSync, statSync } = require("node:fs");
const { tmpdir } = require("node:os");
const { delimiter, join } = require("node:path");
const { createInterface } = require("node:readline");
const { setTimeout: sleep } = require("node:timers/promises");

const START_TIMEOUT_MS = 60_000;
const CHANGE_TIMEOUT_MS = 30_000;
const ANSWER_TIMEOUT_MS = 90_000;
const REPORT_LINES = 40;

/** The control API of one broker (docs/control.md). */
class Control {
  constructor({ url, token }) {
    Object.assign(this, { url, token });
  }

  async ask(method, path, body) {
    const response = await fetch(this.url + path, {
      method,
      headers: { authorization: `Bearer ${this.token}` },
      body: method === "GET" ? undefined : JSON.stringify(body ?? {}),
      signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS),
    });
    const answer = await response.json();
    if (!response.ok) {
      throw new Error(answer.error);
    }
    return answer;
  }
}

/** A fault that was added to a broker. */
class AddedFault {
  constructor(control, id) {
    Object.assign(this, { control, id });
  }

  /** Resolves to the number of hits. */
  async hits() {
    return (await this.control().ask("GET", `/v1/faults/${this.id}`)).hits;
  }

  /** Resolves when the fault has this number of hits. */
  async wait(hits = 1, timeoutMs = 10_000) {
    const seen = await this.control().ask("POST", `/v1/faults/${this.id}/wait`, { hits, timeout_ms: timeoutMs });
    if (seen.hits < hits) {
      throw new Error(`fault ${this.id} was triggered ${seen.hits} times in ${timeoutMs} ms, not ${hits} times`);
    }
  }

  /** Removes the fault, and releases everything that it holds. */
  async remove() {
    await this.control().ask("DELETE", `/v1/faults/${this.id}`);
  }
}

/**
 * The faults of one broker. `which` has the fields of docs/faults.md that select requests, such as
 * `{ api: "Produce", topic: "orders", times: 2 }`; `times: null` means no limit.
 */
class Faults {
  constructor(control) {
    this.control = control;
  }

  /** Adds a fault with any fields of docs/faults.md. */
  async add(fault) {
    const [added] = await this.control().ask("POST", "/v1/faults", fault);
    return new AddedFault(this.control, added.id);
  }

  /** Answers requests with an error, such as "NOT_LEADER_OR_FOLLOWER", without effect. */
  error(code, which) {
    return this.add({ ...which, error: code });
  }

  /** Closes the connection "before" or "after" requests take effect. */
  cut(when, which) {
    return this.add({ ...which, cut: when });
  }

  /** Delays requests. */
  delay(ms, which) {
    return this.add({ ...which, delay_ms: ms });
  }

  /** Lets requests take effect, but sends no response. */
  dropAnswer(which) {
    return this.add({ ...which, drop_answer: true });
  }

  /** Removes all faults, and releases everything that they hold. */
  async clear() {
    await this.control().ask("DELETE", "/v1/faults");
  }
}

/** The clock of a broker. It can be advanced if the broker was started with `clock: "manual"`. */
class Clock {
  constructor(control) {
    this.control = control;
  }

  /** Resolves to the broker's time in ms since 1970. */
  async nowMs() {
    return (await this.control().ask("GET", "/v1/clock")).now_ms;
  }

  /** Advances the clock, and resolves after all timers that expire in that time have run. */
  async advance(ms) {
    await this.control().ask("POST", "/v1/clock/advance", { by_ms: ms });
  }
}

/** What brokers and clusters have in common. */
class Served {
  constructor(run) {
    this.process = run;
    this.bootstrap = run.ready.bootstrap;
  }

  /** Stops the process and removes its data. */
  stop() {
    return this.process.stop();
  }

  /** Runs a command of ottla with this address, such as `command("topic", "list")`, and resolves to its output. */
  async command(...args) {
    const [program, ...first] = find();
    return new Promise((resolve, reject) => {
      execFile(program, [...first, ...args, "--bootstrap", this.bootstrap], { env: environment() }, (error, output, log) => {
        error ? reject(new Error(log.trim() || error.message)) : resolve(output);
      });
    });
  }

  /**
   * Runs the function of a test, in any test runner: a single broker is reset before it, and the error of a failed test gets the
   * history of its transactions.
   */
  async forTest(tested) {
    await this.reset?.();
    const sinceMs = this.clock ? await this.clock.nowMs() : Date.now();
    try {
      return await tested();
    } catch (error) {
      const lines = await this.#history(sinceMs).catch((failed) => [`the history of transactions is not available: ${failed.message}`]);
      if (error instanceof Error && lines.length) {
        const report = `\n\ntransactions on the broker:\n${lines.slice(0, REPORT_LINES - 1).join("\n")}`;
        error.stack += report;
        error.message += report;
      }
      throw error;
    }
  }

  async #history(sinceMs) {
    const lines = [];
    for (const control of this.controls()) {
      const { transactions } = await control.ask("GET", "/v1/transactions");
      for (const { transactional_id: id } of transactions.filter((one) => one.newest_ms >= sinceMs)) {
        if (lines.length < REPORT_LINES) {
          const { url, token } = control;
          const table = await this.command("txn", "timeline", id, "--url", url, "--token", token, "--max", "30");
          lines.push(`${id}:`, ...table.trimEnd().split("\n"));
        }
      }
    }
    return lines;
  }
}

/** A single broker. */
class Broker extends Served {
  /**
   * Starts a broker. `clock` is "machine" or "manual", `settings` are Kafka's `server.properties` keys, and `args` are further
   * options of "ottla serve".
   */
  static async start({ clock = "machine", settings = {}, args = [] } = {}) {
    return new Broker(await Run.start(["--clock", clock, ...setting(settings), ...args]));
  }

  constructor(run) {
    super(run);
    const control = new Control(run.ready.control);
    this.control = control;
    this.faults = new Faults(() => control);
    this.clock = new Clock(() => control);
  }

  controls() {
    return [this.control];
  }

  /** Removes all topics, groups, transactions, configs and faults. Connections are closed; the address stays the same. */
  async reset() {
    await this.control.ask("POST", "/v1/reset");
  }

  /** Lets the broker answer nothing until `resume`; connections stay open. */
  async pause() {
    await this.control.ask("POST", "/v1/pause");
  }

  async resume() {
    await this.control.ask("POST", "/v1/resume");
  }
}

/** A cluster of brokers with the ids 1, 2, 3 and so on. A cluster cannot be reset. */
class Cluster extends Served {
  static async start({ brokers = 3, settings = {}, args = [] } = {}) {
    return new Cluster(await Run.start(["--brokers", `${brokers}`, "--takes-commands", ...setting(settings), ...args]));
  }

  #node(broker) {
    const node = this.process.nodes.get(broker);
    if (node === undefined) {
      throw new Error(`broker ${broker} is not running; restart it first`);
    }
    return node;
  }

  #control(broker) {
    return new Control(this.#node(broker).control);
  }

  controls() {
    const brokers = Object.keys(this.process.ready.brokers).map(Number);
    return brokers.filter((broker) => this.process.nodes.has(broker)).map((broker) => this.#control(broker));
  }

  /** Returns the faults of one broker, which end with its process. */
  faults(broker) {
    return new Faults(() => this.#control(broker));
  }

  /** Lets a broker answer nothing until `resume`; connections stay open. */
  async pause(broker) {
    await this.#control(broker).ask("POST", "/v1/pause");
  }

  async resume(broker) {
    await this.#control(broker).ask("POST", "/v1/resume");
  }

  /** Crashes a broker with SIGKILL. */
  kill(broker) {
    return this.#end(broker, "SIGKILL");
  }

  /** Shuts a broker down with SIGTERM; it first moves its leaderships to other brokers. */
  shutDown(broker) {
    return this.#end(broker, "SIGTERM");
  }

  async #end(broker, signal) {
    process.kill(this.#node(broker).pid, signal);
    await this.#until(() => !this.process.nodes.has(broker));
  }

  /** Starts a broker again that was killed or shut down, or shuts it down first, and resolves when it listens. */
  async restart(broker) {
    if (this.process.nodes.has(broker)) {
      await this.shutDown(broker);
    }
    this.process.child.stdin.write(`${broker}\n`);
    await this.#until(() => this.process.nodes.has(broker));
  }

  /** Resolves to the id of a partition's leader; -1 without a leader. */
  async leader(topic, partition = 0) {
    const { partitions } = JSON.parse(await this.command("topic", "describe", topic, "--json"));
    return partitions.find((one) => one.partition === partition).leader;
  }

  /** Makes an in-sync replica the leader of a partition, and resolves after the change. */
  async moveLeader(topic, partition, to) {
    await this.command("topic", "elect", `${topic}:${partition}`, "--to", `${to}`);
    await this.#until(async () => (await this.leader(topic, partition)) === to);
  }

  async #until(condition) {
    for (const endMs = Date.now() + CHANGE_TIMEOUT_MS; !(await condition()); await sleep(20)) {
      if (Date.now() > endMs) {
        throw new Error(`the cluster did not carry out the command within ${CHANGE_TIMEOUT_MS} ms:\n${this.process.lastLines()}`);
      }
    }
  }
}

/** A process of "ottla serve". */
class Run {
  /** The running nodes of a cluster, by id. */
  nodes = new Map();

  static async start(args) {
    const run = new Run();
    const [program, ...first] = find();
    run.directory = mkdtempSync(join(tmpdir(), "ottla-"));
    const log = openSync(join(run.directory, "log"), "a");
    const all = [...first, "serve", "--listen", "127.0.0.1:0", "--data-dir", join(run.directory, "data"), "--control-port", "0"];
    all.push("--owner-pid", `${process.pid}`, "--owned-directory", run.directory, ...args);
    run.child = spawn(program, all, { stdio: ["pipe", "pipe", log], env: environment() });
    closeSync(log);
    run.ended = once(run.child, "close");
    const ready = new Promise((resolve) => {
      createInterface({ input: run.child.stdout }).on("line", (line) => run.#happened(line, resolve));
    });
    const late = new AbortController();
    const timeout = sleep(START_TIMEOUT_MS, undefined, { signal: late.signal }).catch(() => undefined);
    try {
      run.ready = await Promise.race([ready, run.ended.then(() => undefined), timeout]);
      if (run.ready === undefined) {
        throw new Error(`ottla serve did not start:\n${run.lastLines()}`);
      }
    } catch (error) {
      await run.stop("SIGKILL");
      throw error;
    } finally {
      late.abort();
    }
    return run;
  }

  #happened(line, resolve) {
    const event = JSON.parse(line);
    if (event.event === "started") {
      this.nodes.set(event.node, event);
    } else if (event.event === "ended") {
      this.nodes.delete(event.node);
    } else if (event.event === "ready") {
      resolve(event);
    }
  }

  /** Returns the end of the log. */
  lastLines() {
    return readFileSync(join(this.directory, "log"), "utf8").slice(-4_000).trim();
  }

  async stop(signal = "SIGTERM") {
    this.child.kill(signal);
    const late = setTimeout(() => this.child.kill("SIGKILL"), CHANGE_TIMEOUT_MS);
    await this.ended;
    clearTimeout(late);
    rmSync(this.directory, { recursive: true, force: true });
  }
}

function setting(settings) {
  return Object.entries(settings).flatMap(([key, value]) => ["--set", `${key}=${value}`]);
}

/** Returns the variables without those that configure another broker. */
function environment() {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(KAFKA|OTTLA)_/.test(name)));
}

/** Returns the command of ottla. */
function find() {
  const given = process.env.OTTLA;
  if (given) {
    if (!isProgram(given)) {
      throw new Error(`OTTLA is ${JSON.stringify(given)}, which cannot be run; set it to the path of the command ottla`);
    }
    return [given];
  }
  if (isProgram("ottla")) {
    return ["ottla"];
  }
  for (const python of ["python3", "python"]) {
    if (spawnSync(python, ["-P", "-m", "ottla", "--version"], { stdio: "ignore" }).status === 0) {
      return [python, "-P", "-m", "ottla"];
    }
  }
  throw new Error("ottla was not found; install it for python3, put it on the PATH, or set OTTLA to its path");
}

/** Whether a path, or a name on the PATH, is an executable file. */
function isProgram(name) {
  const paths = name.includes("/") ? [name] : (process.env.PATH ?? "").split(delimiter).map((directory) => join(directory, name));
  return paths.some((path) => {
    try {
      accessSync(path, constants.X_OK);
      return statSync(path).isFile();
    } catch {
      return false;
    }
  });
}

module.exports = { Broker, Cluster };
