import { numberOrNull } from "./actions.js";
import { Live } from "./control.js";
import { hasRegistry } from "./mode.js";

const OUTCOMES = { none: "none", committed: "one that is committed", aborted: "one that is aborted" };

export const produce = (topic) => ({
  name: "produce", title: `Produce a record to ${topic}`, confirm: "Produce",
  fields: [
    { name: "key", label: "key", kind: "long", rows: 2, hint: "empty: no key" },
    ...schemaField("key", topic),
    { name: "isTombstone", label: "tombstone", kind: "check", hint: "no value: compaction deletes the records of the key" },
    { name: "value", label: "value", kind: "long", when: (v) => !v.isTombstone },
    ...schemaField("value", topic),
    { name: "headers", label: "headers", kind: "long", rows: 2, hint: "one NAME=VALUE per line" },
    { name: "partition", label: "partition", kind: "number", hint: "empty: selected by the key" },
    { name: "transaction", label: "transaction", kind: "choice", options: OUTCOMES },
    { name: "id", label: "transactional id", value: "ottla-console", when: (v) => v.transaction !== "none" },
  ],
  request: (v) => ({
    topic,
    key: v.key === "" ? null : v.key,
    value: v.isTombstone ? null : v.value,
    key_schema: schemaOf(v.keySchema),
    value_schema: schemaOf(v.valueSchema),
    headers: headersOf(v.headers),
    partition: numberOrNull(v.partition),
    transaction: v.transaction === "none" ? null : { id: v.id, is_committed: v.transaction === "committed" },
  }),
});

// The field is a text, because a registry may have thousands of subjects. The browser suggests those whose name contains the topic.
const schemaField = (part, topic) => !hasRegistry ? [] : [{
  name: `${part}Schema`, label: `schema of the ${part}`, suggested: (show) => subjectsOf(topic, show),
  hint: `SUBJECT or SUBJECT:VERSION, by which the ${part}, which is JSON, is encoded; empty: the ${part} is text`,
  when: part === "key" ? null : (v) => !v.isTombstone,
}];

function subjectsOf(topic, show) {
  const live = new Live(`v1/schemas?${new URLSearchParams({ match: topic })}`, {
    values: ({ part }) => {
      live.close();
      show(part.rows.filter((row) => !row.is_deleted).map((row) => row.subject));
    },
    refused: () => live.close(),
    ended: () => {},
  });
}

function schemaOf(text) {
  if (!text) return null;
  const found = /^(.+):([0-9]{1,9})$/.exec(text);
  return found ? { subject: found[1], version: Number(found[2]) } : { subject: text };
}

function headersOf(text) {
  return text.split("\n").filter((line) => line.trim()).map((line) => {
    const at = line.indexOf("=");
    if (at < 0) throw new Error(`expected NAME=VALUE: ${line}`);
    return { name: line.slice(0, at), value: line.slice(at + 1) };
  });
}
