import { el, link, notShown, number, pager, pairs, search, table, withOptions } from "./dom.js";
import { act, placeFields, placeOf } from "./actions.js";

export const groups = {
  form: (p) => search("groups", p, "groups whose name contains"),
  draw: ({ part, missing }, p) => [
    el("h1", {}, "Groups"),
    notShown(missing, "ottla group list"),
    pager("groups", p, part),
    table(["group", "type", "state", "lag"], part.rows.map((row) => [
      link(row.group_id, "group", { name: row.group_id }), row.type, row.state,
      row.problem ? el("span", { class: "wrong" }, row.lag ? `${number(row.lag)}; ${row.problem}` : row.problem) : lag(row),
    ])),
  ],
};

export const group = {
  under: "groups",
  title: (p) => p.name,
  form: ({ name }) => el("div", {}, el("h1", {}, name), el("div", { class: "acts" },
    link("configs", "configs", { kind: "group", name }), act("reset the offsets", reset(name)), act("delete offsets", forget(name)), act("delete the group", remove(name)))),
  draw: (g, p) => [
    pairs([["type", g.type], ["state", g.state], ["assignor", g.assignor || "-"]]),
    el("h2", {}, "Why the group has this lag"),
    el("ul", { id: "why" }, g.why.map((line) => el("li", {}, withOptions(line)))),
    g.holders.length ? el("p", {}, "Open transactions that the group waits for: ", g.holders.map((id) => [link(id, "transaction", { id }), " "]),
      g.more_holders ? `and ${number(g.more_holders)} more` : "") : null,
    el("h2", {}, "Positions"),
    pager("group", p, g.part),
    table(["partition", "committed", "end", "lag", "metadata", ""], g.part.rows.map((row) => [
      link(`${row.topic}:${row.partition}`, "messages", { topic: row.topic, partition: row.partition, start: row.committed ?? row.start }),
      row.committed ?? "-", row.end ?? "unknown", row.lag ?? unknownLag(row), row.metadata, row.committed === null ? "" : forgetButton(g, row),
    ])),
    el("h2", {}, "Members"),
    g.members.length === 0 ? el("p", { class: "note" }, "none")
      : table(["client", "host", "member", "assignment"], g.members.map((member) => [
        member.client_id, member.host, member.member_id, assigned(member.assignment),
      ])),
    g.more_members ? el("p", { class: "note" }, `and ${number(g.more_members)} more members`) : null,
  ].filter(Boolean),
};

const remove = (group) => ({ name: "delete-group", title: `Delete group ${group}`, confirm: "Delete", isDanger: true, goes: true, request: () => ({ group }) });

const PLACES = { beginning: "the beginning", end: "the end", day: "24 hours ago", time: "a time", offset: "an offset" };

const reset = (group) => ({
  name: "reset-group", title: `Reset the offsets of ${group}`, confirm: "Reset", isDanger: true,
  fields: [...placeFields("to", PLACES), { name: "topics", label: "topics", hint: "TOPIC or TOPIC:PARTITION, separated by spaces; empty: all with a committed offset" }],
  request: (v) => ({ group, to: placeOf(v), topics: topicsOf(v.topics) }),
});

const forget = (group, place = "") => ({
  name: "delete-offsets", title: `Delete offsets of ${group}`, confirm: "Delete", isDanger: true,
  fields: [{ name: "topics", label: "topics", value: place, isRequired: true, hint: "TOPIC or TOPIC:PARTITION, separated by spaces; no member may subscribe to them" }],
  request: (v) => ({ group, topics: topicsOf(v.topics) }),
});

// The offsets of a share group are deleted by topic.
function forgetButton(g, { topic, partition }) {
  const place = g.type === "share" ? topic : `${topic}:${partition}`;
  return act("delete", forget(g.group_id, place), `delete the offset of ${place}`);
}

const topicsOf = (text) => text.split(/\s+/).filter(Boolean).map(topicOrPartition);

// Splits at a colon, which topic names cannot contain.
function topicOrPartition(text) {
  const [topic, partition] = text.split(":");
  if (partition !== undefined && !/^[0-9]+$/.test(partition)) throw new Error(`expected TOPIC or TOPIC:PARTITION: ${text}`);
  return { topic, partition: partition === undefined ? null : Number(partition) };
}

const unknownLag = (row) => row.end === null ? "unknown: this broker has no replica" : `- (no committed offset; ${number(row.unread)} from earliest)`;

const lag = (row) => row.uncommitted ? `${number(row.lag)}, and ${number(row.uncommitted)} partitions without a committed offset` : row.lag;

const assigned = (byTopic) => Object.entries(byTopic).map(([topic, indexes]) => `${topic}: ${indexes.join(", ")}`).join("; ") || "none";
