import { numberOrNull } from "./actions.js";

const OUTCOMES = { none: "none", committed: "one that is committed", aborted: "one that is aborted" };

export const produce = (topic) => ({
  name: "produce", title: `Produce a record to ${topic}`, confirm: "Produce",
  fields: [
    { name: "key", label: "key", kind: "long", rows: 2, hint: "empty: no key" },
    { name: "isTombstone", label: "tombstone", kind: "check", hint: "no value: compaction deletes the records of the key" },
    { name: "value", label: "value", kind: "long", when: (v) => !v.isTombstone },
    { name: "headers", label: "headers", kind: "long", rows: 2, hint: "one NAME=VALUE per line" },
    { name: "partition", label: "partition", kind: "number", hint: "empty: selected by the key" },
    { name: "transaction", label: "transaction", kind: "choice", options: OUTCOMES },
    { name: "id", label: "transactional id", value: "ottla-console", when: (v) => v.transaction !== "none" },
  ],
  request: (v) => ({
    topic,
    key: v.key === "" ? null : v.key,
    value: v.isTombstone ? null : v.value,
    headers: headersOf(v.headers),
    partition: numberOrNull(v.partition),
    transaction: v.transaction === "none" ? null : { id: v.id, is_committed: v.transaction === "committed" },
  }),
});

function headersOf(text) {
  return text.split("\n").filter((line) => line.trim()).map((line) => {
    const at = line.indexOf("=");
    if (at < 0) throw new Error(`expected NAME=VALUE: ${line}`);
    return { name: line.slice(0, at), value: line.slice(at + 1) };
  });
}
