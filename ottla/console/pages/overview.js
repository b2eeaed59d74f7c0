import { el, link, notShown, number, pairs, size, table, time, withOptions } from "./dom.js";
import { isElsewhere } from "./mode.js";

const counted = (states) => Object.entries(states).map(([name, count]) => `${number(count)} ${name}`).join(", ") || "none";

export const overview = {
  draw: (o) => [
    el("h1", {}, "Overview"),
    notShown(o.missing, "ottla group list and ottla txn list"),
    pairs([
      ["bootstrap", o.bootstrap],
      ["brokers", o.brokers.map((broker, at) => [at ? ", " : "", link(`${broker.node_id} at ${broker.address}`, "configs", { kind: "broker", name: broker.node_id })])],
      ["cluster", el("span", { class: "id" }, o.cluster_id)],
      ["data", isElsewhere ? size(o.size_bytes) : `${o.data_dir}, ${size(o.size_bytes)}`],
      ["healthy", o.is_sound ? "yes" : el("span", { class: "wrong" }, `no: ${o.problems.join("; ") || "see the broker's log"}`)],
      isElsewhere ? null : ["unexpected errors", o.unexpected_errors ? el("span", { class: "wrong" }, number(o.unexpected_errors)) : "0"],
      isElsewhere ? null : ["clock", o.clock_ms === null ? "machine" : `manual, at ${time(o.clock_ms)}`],
      ["topics", link(topicsOf(o), "topics")],
      ["groups", link(counted(o.groups), "groups")],
      ["largest lag", largestLag(o)],
      ["transactional ids", link(counted(o.transactions), "transactions")],
      isElsewhere ? null : ["faults", link(String(o.faults), "steering")],
    ].filter(Boolean)),
    ...(o.strays.count === 0 ? [] : [
      el("h2", {}, "Stray directories"),
      table(["directory", "size", "partition", "topic id", "hidden by a topic", "recovery"], o.strays.named.map((stray) => [
        stray.directory, stray.size_bytes === null ? "unknown" : size(stray.size_bytes), `${stray.topic}:${stray.partition}`,
        stray.topic_id || "none", stray.is_hidden ? "yes" : "no", withOptions(stray.way_back),
      ])),
      o.strays.count > o.strays.named.length
        ? el("p", { class: "note" }, `and ${number(o.strays.count - o.strays.named.length)} more, ${size(o.strays.size_bytes)} in all`) : null,
    ]),
    ...(o.reported_strays.length === 0 ? [] : [
      el("h2", {}, "Stray directories"),
      table(["broker", "stray directory"], o.reported_strays.map((stray) => [stray.broker_id, stray.text])),
      o.more_reported_strays ? el("p", { class: "note" }, `and ${number(o.more_reported_strays)} more: ottla cluster lists all`) : null,
    ]),
    el("h2", {}, "Partitions whose records wait for an open transaction"),
    o.held.length === 0 ? el("p", { class: "note" }, "none")
      : table(["partition", "transactional id", "last stable offset", "high watermark", "held back"], o.held.map((held) => [
        link(`${held.topic}:${held.partition}`, "messages", { topic: held.topic, partition: held.partition, isolation: "all" }),
        held.transactional_id === null ? "unknown" : link(held.transactional_id, "transaction", { id: held.transactional_id }),
        held.last_stable_offset, held.high_watermark, held.high_watermark - held.last_stable_offset,
      ])),
    o.held_count > o.held.length ? el("p", { class: "note" }, `and ${number(o.held_count - o.held.length)} more`) : null,
    ...(isElsewhere ? [] : newest(o.newest)),
  ].filter(Boolean),
};

// The list of topics counts internal topics as well.
const topicsOf = (o) => `${number(o.topics)} with ${number(o.partitions)} partitions` +
  (o.internal_topics ? `, and ${number(o.internal_topics)} internal` : "");

// If the lag of some groups is not known in all partitions, the largest lag may be larger than the largest that is known.
function largestLag({ largest_lag: largest, unknown_lags: unknown }) {
  const groups = `the lag of ${number(unknown)} ${unknown === 1 ? "group" : "groups"} is not known`;
  if (!largest) return unknown ? `unknown: ${groups}` : "none";
  const text = `${unknown ? "at least " : ""}${number(largest.lag)} of group ${largest.group_id}`;
  return [link(text, "group", { name: largest.group_id }), unknown ? `; ${groups}` : null];
}

const newest = (ids) => [
  el("h2", {}, "Newest transactions"),
  ids.length === 0 ? el("p", { class: "note" }, "none since the broker started")
    : table(["transactional id", "last event"], ids.map((one) => [
      link(one.transactional_id, "transaction", { id: one.transactional_id }), time(one.newest_ms),
    ])),
];
