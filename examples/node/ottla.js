// Starts a broker for tests: one process of "ottla serve" on a free port.
"use strict";

const { spawn } = require("node:child_process");
const { once } = require("node:events");
const { mkdtemp, rm } = require("node:fs/promises");
const { tmpdir } = require("node:os");
const { join } = require("node:path");
const { createInterface } = require("node:readline");

/**
 * Resolves to `{ bootstrap, stop }` once the broker answers requests; `await stop()` ends it and removes its data.
 * The environment variable OTTLA names the command where it is not on the PATH.
 */
async function start() {
  const data = await mkdtemp(join(tmpdir(), "ottla-"));
  const command = process.env.OTTLA || "ottla";
  const broker = spawn(command, ["serve", "--listen", "127.0.0.1:0", "--data-dir", data], { stdio: ["ignore", "pipe", "inherit"] });
  const ended = once(broker, "close");
  const lines = createInterface({ input: broker.stdout });
  const line = await Promise.race([once(lines, "line").then(([line]) => line), ended.then(() => undefined)]);
  if (line === undefined) {
    throw new Error("ottla serve did not start; its log lines say why");
  }
  async function stop() {
    broker.kill("SIGTERM");
    await ended;
    await rm(data, { recursive: true });
  }
  return { bootstrap: JSON.parse(line).bootstrap, stop };
}

module.exports = { start };
