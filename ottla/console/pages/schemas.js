// The subjects of the schema registry, and the versions of a subject with their schemas.

import { el, link, number, pager, pairs, search, table } from "./dom.js";
import { act, acts } from "./actions.js";
import { visible } from "./records.js";

const KINDS = { AVRO: "Avro", JSON: "JSON Schema", PROTOBUF: "Protobuf" };
const LEVELS = ["BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE", "NONE"];

const kind = (name) => KINDS[name] ?? name;
const versionLink = (subject, version) => link(`${visible(subject)} version ${version}`, "subject", { name: subject, version });

export const schemas = {
  form: (p) => el("div", {}, search("schemas", p, "subjects whose name contains"), acts(act("register a schema", register()))),
  draw: ({ url, level, part }, p) => [
    el("h1", {}, "Schemas"),
    pairs([["registry", url], ["compatibility level", [level ?? "-", " ", act("set", setLevel(null, level), "set the compatibility level")]]]),
    pager("schemas", p, part),
    table(["subject", "type", "latest version", "schema id", ""], part.rows.map((row) => [
      link(visible(row.subject), "subject", { name: row.subject }), kind(row.kind ?? ""), row.version ?? "", row.id ?? "",
      row.problem ? el("span", { class: "wrong" }, row.problem) : row.is_deleted ? "soft-deleted" : "",
    ])),
  ],
};

export const subject = {
  under: "schemas",
  title: (p) => p.name,
  form: ({ name }) => el("h1", {}, visible(name)),
  draw: (s, p) => [
    acts(act("register a new version", register(s)), act("set the compatibility level", setLevel(s.name, s.level ?? s.global_level)),
      s.has_live_versions ? act("delete the subject", removeSubject(s.name, false)) : act("delete the subject permanently", removeSubject(s.name, true))),
    pairs([["compatibility level", s.level ?? `${s.global_level ?? "-"}, of the registry`]]),
    el("h2", {}, `Version ${number(s.shown.version)}`),
    pairs([
      ["type", kind(s.shown.kind)], ["schema id", number(s.shown.id)],
      s.shown.is_deleted ? ["state", "soft-deleted"] : null,
      s.shown.references.length ? ["refers to", list(s.shown.references.map((one) => [`${visible(one.name)}: `, versionLink(one.subject, one.version)]))] : null,
      s.shown.users.length ? ["used by", users(s.shown)] : null,
    ].filter(Boolean)),
    el("pre", { class: "schema", tabindex: 0, role: "region", "aria-label": "schema" }, visible(s.shown.text)),
    isCut(s) ? el("p", { class: "note" }, `the first ${number(s.shown.text.length)} of ${number(s.shown.characters)} characters`) : null,
    acts(s.shown.is_deleted ? act("delete this version permanently", removeVersion(s, true)) : act("delete this version", removeVersion(s, false))),
    el("h2", {}, "Versions"),
    pager("subject", p, s.part),
    table(["version", ""], s.part.rows.map((row) => [link(String(row.version), "subject", { name: s.name, version: row.version }), row.is_deleted ? "soft-deleted" : ""])),
  ].filter(Boolean),
};

const isCut = (s) => s.shown.text.length < s.shown.characters;
const list = (lines) => lines.map((line) => el("div", {}, line));

const users = ({ users: shown, more_users: more }) => [
  list(shown.map((one) => (one.versions.length ? one.versions.map(([name, version]) => [versionLink(name, version), " "]) : `schema id ${one.id}`))),
  more ? `and ${number(more)} more schemas` : null,
];

// The parameters of the subject's page are those of the shown version, whose schema the user changes into the next one.
const register = (s = null) => ({
  name: "register-schema", title: s ? `Register a version of ${visible(s.name)}` : "Register a schema", confirm: "Register", goes: true,
  fields: [
    ...(s ? [] : [{ name: "subject", label: "subject", isRequired: true, hint: "TOPIC-value or TOPIC-key for the values or keys of a topic" }]),
    { name: "kind", label: "type", kind: "choice", options: KINDS, value: s?.shown.kind },
    { name: "text", label: "schema", kind: "long", rows: 12, isRequired: true, value: s && !isCut(s) ? s.shown.text : "" },
    { name: "references", label: "references", kind: "long", rows: 2, hint: "one NAME SUBJECT VERSION per line",
      value: s?.shown.references.map((one) => `${one.name} ${one.subject} ${one.version}`).join("\n") },
  ],
  request: (v) => ({ subject: s?.name ?? v.subject, kind: v.kind, text: v.text, references: referencesOf(v.references) }),
});

function referencesOf(text) {
  return text.split("\n").map((line) => line.trim()).filter(Boolean).map((line) => {
    const found = /^(\S+)\s+(.+?)\s+([0-9]{1,9})$/.exec(line);
    if (!found) throw new Error(`expected NAME SUBJECT VERSION: ${line}`);
    return { name: found[1], subject: found[2], version: Number(found[3]) };
  });
}

const setLevel = (subject, level) => ({
  name: "set-compatibility", title: `Set the compatibility level of ${subject === null ? "the registry" : visible(subject)}`, confirm: "Set",
  fields: [{ name: "level", label: "level", kind: "choice", value: level ?? "", options: {
    ...(subject === null ? {} : { "": "that of the registry" }), ...Object.fromEntries(LEVELS.map((one) => [one, one])) } }],
  request: (v) => ({ subject, level: v.level || null }),
});

const removeSubject = (subject, isPermanent) => ({
  name: "delete-subject", title: `Delete subject ${visible(subject)}${isPermanent ? " permanently" : ""}`, confirm: "Delete", isDanger: true, goes: isPermanent,
  request: () => ({ subject, is_permanent: isPermanent }),
});

const removeVersion = (s, isPermanent) => ({
  name: "delete-schema-version", title: `Delete version ${s.shown.version} of ${visible(s.name)}${isPermanent ? " permanently" : ""}`, confirm: "Delete", isDanger: true, goes: isPermanent,
  request: () => ({ subject: s.name, version: s.shown.version, is_permanent: isPermanent }),
});
