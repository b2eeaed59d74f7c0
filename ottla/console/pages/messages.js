import { el, link, number, table, time } from "./dom.js";

const ISOLATIONS = { committed: "read_committed", all: "read_uncommitted", aborted: "aborted records only" };

export const messages = {
  under: "topics",
  title: (p) => `${p.topic}:${p.partition ?? 0}`,
  form: (p) => {
    const choose = (name, properties) => el("input", { id: name, name, ...properties });
    const isolation = el("select", { id: "isolation" }, Object.entries(ISOLATIONS).map(([value, text]) =>
      el("option", { value, selected: value === (p.isolation ?? "committed") }, text)));
    const partition = choose("partition", { type: "number", min: 0, value: p.partition ?? 0, size: 6 });
    const start = choose("start", { type: "number", min: 0, value: p.start ?? "", placeholder: "newest" });
    const go = (event) => {
      event?.preventDefault();
      const at = start.value === "" ? {} : { start: start.value };
      location.hash = `messages?${new URLSearchParams({ topic: p.topic, partition: partition.value, isolation: isolation.value, ...at })}`;
    };
    isolation.addEventListener("change", () => go());
    return el("form", { onsubmit: go }, el("label", { for: "partition" }, "partition"), partition,
      el("label", { for: "start" }, "from offset"), start, el("label", { for: "isolation" }, "as"), isolation, el("button", {}, "show"));
  },
  draw: (m, p) => [
    el("h1", {}, link(m.topic, "topic", { name: m.topic }), ` : ${m.partition}`),
    el("p", { class: "note" }, `offsets ${number(m.log_start_offset)} to ${number(m.high_watermark)}, stable up to ${number(m.last_stable_offset)}` +
      (m.last_stable_offset < m.high_watermark ? `: ${number(m.high_watermark - m.last_stable_offset)} wait for an open transaction` : "")),
    pages(m, p),
    m.stopped_at === null ? null : el("p", { class: "note" },
      `searched up to offset ${number(m.stopped_at)}; next continues there`),
    m.too_large === null ? null : el("p", { class: "note", id: "too-large" }, m.too_large),
    table(["offset", "time", "producer", "key", "value", "headers"], m.records.map(row), "wide"),
  ].filter(Boolean),
};

function pages(m, p) {
  const at = (start) => ({ topic: m.topic, partition: m.partition, isolation: m.isolation, start });
  return el("div", { class: "pager" },
    m.start > m.log_start_offset ? link("before", "messages", at(Math.max(m.log_start_offset, m.start - m.limit))) : null,
    m.next_offset === null ? null : link("next", "messages", at(m.next_offset)),
    p.start === undefined ? null : link("newest", "messages", { topic: m.topic, partition: m.partition, isolation: m.isolation }));
}

function row(record) {
  const producer = record.producer_id < 0 ? "" : `${record.producer_id} epoch ${record.producer_epoch}${record.is_transactional ? ", in a transaction" : ""}`;
  if (record.control !== null) {
    return { kind: "control", cells: [record.offset, time(record.timestamp_ms), producer, "", `${record.control} marker`, ""] };
  }
  const headers = record.headers.map((header) => el("div", {}, `${header.name}: `, bytes(header.value)));
  if (record.more_headers) headers.push(el("div", { class: "note" }, `and ${number(record.more_headers)} more`));
  return [record.offset, time(record.timestamp_ms), producer, bytes(record.key), bytes(record.value), headers];
}

function bytes(value) {
  if (value === null) return el("span", { class: "note" }, "null");
  const isCut = value.kind === "hex" ? (value.text.length + 1) / 3 < value.size_bytes : new TextEncoder().encode(value.text).length < value.size_bytes;
  return el("span", { class: value.kind === "hex" ? "hex" : "text", title: value.kind === "hex" ? "not UTF-8" : null }, value.text,
    isCut ? el("span", { class: "note" }, ` … ${number(value.size_bytes)} bytes`) : null);
}
