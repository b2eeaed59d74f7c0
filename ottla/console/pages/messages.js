import { el, isWide, link, number, table, time } from "./dom.js";
import { downloads } from "./download.js";
import { FORMATS, bytes, headers, producer } from "./records.js";

const ISOLATIONS = { committed: "read_committed", all: "read_uncommitted", aborted: "aborted records only" };
const ORDERS = { newest: "newest first", oldest: "oldest first" };
// The text fields of the form: name, label, placeholder, width. On a narrow screen, fields in MORE are hidden until the user opens
// them.
const FIELDS = [
  ["partition", "partitions", "all, or 0,2-5"], ["from", "from", "offset, -N or time"], ["to", "up to", "offset or time"],
  ["text", "with text", "in key, value, header"], ["key", "key has", ""], ["value", "value has", ""], ["header", "header", "name or name=text"],
  ["producer", "producer id", ""], ["filter", "filter", "value.status=paid or value$..price>100", 32],
];

const MORE = ["partition", "key", "value", "header", "producer", "isolation", "as_key", "as_value"];

let isPaused = false;

function form(p) {
  const chosen = (name, options) => el("select", { id: name, name }, Object.entries(options).map(([value, text]) =>
    el("option", { value, selected: value === (p[name] ?? Object.keys(options)[0]) }, text)));
  const choices = { order: chosen("order", ORDERS), isolation: chosen("isolation", ISOLATIONS), as_key: chosen("as_key", FORMATS), as_value: chosen("as_value", FORMATS) };
  const texts = FIELDS.map(([name, label, placeholder, width = 14]) => [name, label, el("input", { id: name, name, value: p[name] ?? "", placeholder, size: width, autocomplete: "off" })]);
  const go = (event) => {
    event?.preventDefault();
    const given = { topic: p.topic };
    for (const [name, , field] of texts) if (field.value.trim() !== "") given[name] = field.value.trim();
    for (const [name, field] of Object.entries(choices)) if (field.selectedIndex > 0) given[name] = field.value;
    location.hash = `messages?${new URLSearchParams(given)}`;
  };
  for (const field of Object.values(choices)) field.addEventListener("change", () => go());
  const labelled = (name, label, field) => el("span", {}, el("label", { for: name }, `${label} `), field);
  const pause = el("button", { type: "button", id: "pause", "aria-pressed": "false" }, "pause");
  isPaused = false;
  pause.addEventListener("click", () => {
    isPaused = !isPaused;
    pause.textContent = isPaused ? "continue" : "pause";
    pause.setAttribute("aria-pressed", String(isPaused));
    document.dispatchEvent(new Event("selectionchange"));
  });
  const all = [...texts, ["order", "order", choices.order], ["isolation", "isolation", choices.isolation], ["as_key", "keys as", choices.as_key],
    ["as_value", "values as", choices.as_value]];
  const isMore = ([name]) => MORE.includes(name);
  const isOpen = isWide() || MORE.some((name) => p[name]);
  return el("form", { onsubmit: go }, all.filter((one) => !isMore(one)).map((one) => labelled(...one)),
    el("details", { class: "more", open: isOpen }, el("summary", {}, "more"), all.filter(isMore).map((one) => labelled(...one))),
    el("button", {}, "show"), pause, downloads(p));
}

export const messages = {
  under: "topics",
  title: (p) => (p.partition ? `${p.topic}:${p.partition}` : p.topic),
  form,
  held: () => (isPaused ? "you look at these records" : null),
  draw: (m, p) => [
    el("h1", {}, link(m.topic, "topic", { name: m.topic }), p.partition ? ` : ${p.partition}` : null),
    el("p", { class: "note" }, range(m, p)),
    m.records.length === 0 ? el("p", { class: "note" }, none(m)) : null,
    pages(m, p),
    m.is_partial ? el("p", { class: "note", id: "partial" }, `${number(m.searched)} offsets were searched; next continues the search`) : null,
    m.problems.map((problem) => el("p", { class: "note problem" }, problem)),
    table(["partition : offset", "time", "producer", "key", "value", "headers"], m.records.map((record) => row(m.topic, record, p)), "wide records"),
  ].flat().filter(Boolean),
};

function range(m, p) {
  const waiting = m.waiting > 0 ? `; ${number(m.waiting)} wait for an open transaction` : "";
  if (m.high_watermark !== null) {
    return `offsets ${number(m.log_start_offset)} to ${number(m.high_watermark)}, stable up to ${number(m.last_stable_offset)}${waiting}`;
  }
  const part = p.partition ? "" : "the first ";
  const read = m.read < m.partitions ? ` in ${part}${number(m.read)} of ${number(m.partitions)} partitions` : ` in ${number(m.partitions)} partitions`;
  return `${number(m.offsets)} offsets${read}${waiting}`;
}

const none = (m) => m.isolation === "committed" && m.offsets > 0
  ? "no matching records; the isolation read_uncommitted shows aborted records and markers too" : "no matching records";

function pages(m, p) {
  const { at, ...first } = p;
  return el("div", { class: "pager" },
    at === undefined ? null : link(m.order === "newest" ? "newest" : "first", "messages", first),
    m.next === null ? null : link("next", "messages", { ...first, at: m.next }));
}

function row(topic, record, p) {
  const formats = Object.fromEntries(["as_key", "as_value"].filter((name) => p[name]).map((name) => [name, p[name]]));
  const where = link(`${record.partition} : ${number(record.offset)}`, "record", { topic, partition: record.partition, offset: record.offset, ...formats });
  if (record.control !== null) return { kind: "control", cells: [where, time(record.timestamp_ms), producer(record), "", `${record.control} marker`, ""] };
  return [where, time(record.timestamp_ms), producer(record), bytes(record.key), bytes(record.value), headers(record)];
}
