import { el, link, number, pager, search, size, svg, table } from "./dom.js";

const WIDTH = 420;
const HEIGHT = 16;

export const topics = {
  form: (p) => search("topics", p, "topics whose name contains"),
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
  draw: ({ name, part }, p) => [
    el("h1", {}, name),
    legend(),
    pager("topic", p, part),
    table(["partition", "leader", "start", "last stable", "high watermark", "end", ""], part.rows.map((row) => partition(name, row))),
  ],
};

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

// A partition from its start to its end, with the offsets that part what readers may see.
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
