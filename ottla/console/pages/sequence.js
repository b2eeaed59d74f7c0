// Draws the events of a transactional id as a sequence diagram of clients, the coordinator and partitions.

import { elapsed, svg, time } from "./dom.js";

const LANE = 160;
const LEFT = 130;
const HEAD = 34;
const ROW = 26;
const MOST_PARTITIONS = 6;
const TEXT_LENGTH = 90;
const OTHERS = "other partitions";

const short = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);

export function sequence(transactionalId, events) {
  const partitions = [...new Set(events.filter((e) => e.kind === "data" || e.kind === "marker").flatMap((e) => e.partitions))];
  const clients = [...new Set(events.filter((e) => e.where.startsWith("from ")).map((e) => e.where.slice(5)))];
  const shown = partitions.length > MOST_PARTITIONS ? [...partitions.slice(0, MOST_PARTITIONS - 1), OTHERS] : partitions;
  const lanes = [...(clients.length ? clients : [transactionalId]), "coordinator", ...shown];
  const x = (lane) => LEFT + LANE * Math.max(0, lanes.indexOf(lane));
  const of = (partition) => (shown.includes(partition) ? partition : OTHERS);
  const width = LEFT + LANE * lanes.length + 240;
  const height = HEAD + ROW * (events.length + 1);
  const first = events.length ? events[0].time_ms : 0;
  const writers = writersOf(events, lanes[0]);
  return svg("svg", { id: "sequence", width, height, role: "img", viewBox: `0 0 ${width} ${height}` },
    svg("title", {}, `${events.length} events of ${transactionalId}`),
    lanes.map((lane) => [
      svg("line", { class: "lifeline", x1: x(lane), x2: x(lane), y1: HEAD, y2: height }),
      svg("text", { class: "lane", x: x(lane), y: 20, "text-anchor": "middle" }, svg("title", {}, lane), short(lane.replace(/^client /, ""), 24)),
    ]),
    events.map((event, at) => row(event, HEAD + ROW * (at + 0.8), x, of, first, writers[at])));
}

function row(event, y, x, of, first, writer) {
  const text = describe(event);
  const label = [svg("text", { class: "time", x: 4, y: y + 4 }, `+${elapsed(event.time_ms - first)}`)];
  const title = svg("title", {}, `${time(event.time_ms)} ${describe(event, Infinity)} (${event.where})`);
  const coordinator = x("coordinator");
  if (event.kind === "data" || event.kind === "marker") {
    const from = event.kind === "marker" ? coordinator : x(writer);
    return svg("g", { class: `event ${event.kind}` }, title, label, arrow(from, x(of(event.partitions[0])), y, text));
  }
  if (event.where.startsWith("from ")) {
    return svg("g", { class: `event ${event.kind}` }, title, label, arrow(x(event.where.slice(5)), coordinator, y, text));
  }
  return svg("g", { class: `event ${event.kind}` }, title, label,
    svg("circle", { cx: coordinator, cy: y, r: 4 }), svg("text", { x: coordinator + 9, y: y + 4 }, text));
}

// Returns the client that caused each event. No log contains it, so it is the client that has sent the last request with the same
// producer id and epoch before the event, else the client of the last request.
function writersOf(events, first) {
  const key = (event) => `${event.producer_id} ${event.producer_epoch}`;
  const asking = events.filter((event) => event.kind === "request" && event.where.startsWith("from "));
  const byProducer = new Map();
  let last = first;
  return events.map((event) => {
    if (asking.includes(event)) {
      last = event.where.slice(5);
      byProducer.set(key(event), last);
    }
    return byProducer.get(key(event)) ?? last;
  });
}

function describe(event, length = TEXT_LENGTH) {
  const added = event.kind === "begin" || event.kind === "add" ? `: ${event.partitions.join(" ")}` : "";
  return short(event.what + added, length);
}

function arrow(from, to, y, text) {
  const way = to >= from ? 1 : -1;
  return [
    svg("line", { class: "arrow", x1: from, x2: to - 6 * way, y1: y, y2: y }),
    svg("path", { class: "head", d: `M ${to} ${y} l ${-8 * way} -4 v 8 z` }),
    svg("text", { x: Math.max(from, to) + 8, y: y + 4 }, text),
  ];
}
