import { el, link, number, pager, search, size, svg, table } from "./dom.js";
import { act, acts, numberOrNull, placeFields, placeOf } from "./actions.js";
import { produce } from "./produce.js";

const WIDTH = 420;
const HEIGHT = 16;

export const topics = {
  form: (p) => el("div", {}, search("topics", p, "topics whose name contains"), acts(act("create a topic", create()))),
  draw: ({ part }, p) => [
    el("h1", {}, "Topics"),
    pager("topics", p, part),
    table(["topic", "partitions", "replicas", "offsets", "held back", "size", ""], part.rows.map((row) => [
      link(row.name, "topic", { name: row.name }), row.partitions, row.replicas, row.offsets, row.waiting, size(row.size_bytes),
      row.is_internal ? "internal" : "",
    ])),
  ],
};

export const topic = {
  under: "topics",
  title: (p) => p.name,
  form: ({ name }) => el("div", {}, el("h1", {}, name), el("div", { class: "acts" },
    link("records", "messages", { topic: name }), link("configs", "configs", { kind: "topic", name }), act("produce a record", produce(name)), act("delete records", deleteRecords(name)),
    act("add partitions", grow(name)), act("elect leaders", elect(name)), act("delete the topic", remove(name)))),
  draw: ({ name, part }, p) => [
    legend(),
    pager("topic", p, part),
    table(["partition", "leader", "start", "last stable", "high watermark", "end", ""], part.rows.map((row) => partition(name, row))),
  ],
};

const create = () => ({
  name: "create-topic", title: "Create a topic", confirm: "Create", goes: true,
  fields: [
    { name: "topic", label: "name", isRequired: true },
    { name: "partitions", label: "partitions", kind: "number", min: 1, hint: "empty: the brokers' num.partitions" },
    { name: "replicas", label: "replicas", kind: "number", min: 1, hint: "empty: the brokers' default.replication.factor" },
    { name: "configs", label: "configs", kind: "long", hint: "one KEY=VALUE per line, such as cleanup.policy=compact" },
  ],
  request: (v) => ({ topic: v.topic, partitions: numberOrNull(v.partitions), replicas: numberOrNull(v.replicas), configs: configsOf(v.configs) }),
});

function configsOf(text) {
  const lines = text.split("\n").map((line) => line.trim()).filter(Boolean);
  const wrong = lines.find((line) => line.indexOf("=") < 1);
  if (wrong) throw new Error(`expected KEY=VALUE: ${wrong}`);
  return Object.fromEntries(lines.map((line) => [line.slice(0, line.indexOf("=")).trim(), line.slice(line.indexOf("=") + 1).trim()]));
}

const grow = (topic) => ({
  name: "add-partitions", title: `Add partitions to ${topic}`, confirm: "Add",
  fields: [{ name: "partitions", label: "new number of partitions", kind: "number", min: 1, isRequired: true }],
  request: (v) => ({ topic, partitions: Number(v.partitions) }),
});

const remove = (topic) => ({ name: "delete-topic", title: `Delete topic ${topic}`, confirm: "Delete", isDanger: true, goes: true, request: () => ({ topic }) });

const ONE_OR_ALL = { name: "partition", label: "partition", kind: "number", hint: "empty: all partitions" };

const deleteRecords = (topic) => ({
  name: "delete-records", title: `Delete records of ${topic}`, confirm: "Delete", isDanger: true,
  fields: [...placeFields("delete", { end: "all records", offset: "records before an offset", time: "records before a time" }), ONE_OR_ALL],
  request: (v) => ({ topic, before: placeOf(v), partition: numberOrNull(v.partition) }),
});

const elect = (topic) => ({
  name: "elect-leaders", title: `Elect leaders of ${topic}`, confirm: "Elect",
  fields: [ONE_OR_ALL, { name: "kind", label: "elect", kind: "choice", value: "preferred", options: {
    preferred: "the preferred replicas", unclean: "any replica where there is no leader (unclean)" } }],
  request: (v) => ({ topic, partition: numberOrNull(v.partition), is_unclean: v.kind === "unclean" }),
});

function partition(name, row) {
  const shown = link(String(row.partition), "messages", { topic: name, partition: row.partition });
  if (row.problem) return [shown, "", "", "", "", "", el("span", { class: "wrong" }, row.problem)];
  return [shown, row.leader, row.log_start_offset, row.last_stable_offset, row.high_watermark, row.log_end_offset, ribbon(row)];
}

function legend() {
  const entry = (kind, text) =>
    el("span", {}, svg("svg", { class: "key", width: 12, height: 10 }, svg("rect", { class: kind, width: 12, height: 10 })), text);
  return el("p", { class: "note" }, entry("log", "readable by all consumers"), entry("aborted", "an aborted transaction"), entry("marker", "marker"),
    entry("unstable", "above the last stable offset"), entry("open", "an open transaction begins"),
    entry("uncommitted", "above the high watermark"));
}

// Draws a partition's offsets from log start to log end. Colours show which offsets consumers can read.
function ribbon(row) {
  const length = Math.max(1, row.log_end_offset - row.log_start_offset);
  const x = (offset) => ((Math.min(Math.max(offset, row.log_start_offset), row.log_end_offset) - row.log_start_offset) * WIDTH) / length;
  const part = (kind, from, to, least = 0) => {
    if (to <= from) return null;
    const width = Math.max(least, x(to) - x(from));
    return svg("rect", { class: kind, x: Math.min(x(from), WIDTH - width), width, height: HEIGHT });
  };
  const spoken = `offsets ${number(row.log_start_offset)} to ${number(row.log_end_offset)}, stable up to ${number(row.last_stable_offset)}; ` +
    `${row.aborted.length} aborted transactions, ${row.markers.length} markers, ${row.open.length} open transactions`;
  return svg("svg", { class: "ribbon", width: WIDTH, height: HEIGHT, role: "img" },
    svg("title", {}, spoken),
    part("log", row.log_start_offset, row.last_stable_offset),
    part("unstable", row.last_stable_offset, row.high_watermark),
    part("uncommitted", row.high_watermark, row.log_end_offset),
    row.aborted.map((one) => part("aborted", one.first_offset, one.last_offset, 1)),
    row.markers.map((offset) => part("marker", offset, offset + 1, 1)),
    row.open.map((offset) => part("open", offset, offset + 1, 2)));
}
