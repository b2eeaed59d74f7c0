import { el, link, table } from "./dom.js";
import { act } from "./actions.js";

const WHOSE = { topic: "topics", broker: "overview", group: "groups" };

// The text that names of shown configs must contain. It also applies when new values are drawn.
let match = "";

export const configs = {
  under: (p) => WHOSE[p.kind] ?? "overview",
  title: (p) => `configs of ${p.kind} ${p.name || "default"}`,
  form: () => {
    match = "";
    const field = el("input", { id: "match-configs", type: "search", oninput: () => {
      match = field.value;
      narrow();
    } });
    return el("form", { onsubmit: (event) => event.preventDefault() }, el("label", { for: "match-configs" }, "configs whose name contains"), field);
  },
  draw: ({ kind, name, rows }) => {
    const owner = kind === "broker" ? (name ? `broker ${name}` : "all brokers") : link(name, kind, { name });
    const shown = [...rows].sort((one, other) => other.is_own - one.is_own);
    queueMicrotask(narrow);
    return [
      el("h1", {}, "Configs of ", owner),
      kind === "broker" && name ? el("p", {}, link("dynamic configs of all brokers", "configs", { kind, name: "" })) : null,
      rows.length === 0 ? el("p", { class: "note" }, "no configs are set") : table(["config", "value", "default", "set by", "", "documentation"], shown.map((row) => ({
        kind: row.is_own ? "ongoing" : null,
        cells: [el("code", { "data-config": row.name }, row.name), value(row, row.value), row.is_own ? value(row, row.default) : "",
          row.is_own ? row.source : "", edits(kind, name, row), el("span", { class: "note doc" }, plain(row.documentation))],
      })), "wide"),
      kind === "broker" && !name ? act("set another config", set(kind, name, null)) : null,
    ].filter(Boolean);
  },
};

// Removes HTML tags, which Kafka's documentation contains.
const plain = (text) => text.replace(/<[^>]*>/g, "");

function narrow() {
  for (const each of document.querySelectorAll("[data-config]")) each.closest("tr").hidden = !each.dataset.config.includes(match);
}

const value = (row, text) => row.is_sensitive ? el("span", { class: "note" }, "hidden") : el("span", { class: "text" }, text ?? "");

function edits(kind, name, row) {
  if (row.is_read_only) return el("span", { class: "note" }, "set only at the broker's start");
  return [act("edit", set(kind, name, row), `edit ${row.name}`), row.is_own ? act("unset", unset(kind, name, row), `unset ${row.name}`) : null];
}

function set(kind, name, row) {
  const key = { name: "key", label: "config", isRequired: true };
  const field = { name: "value", label: "value", value: row?.is_sensitive ? "" : row?.value, hint: row ? [row.type, plain(row.documentation)].filter(Boolean).join(": ") : null };
  return {
    name: "set-config", title: row ? `Set ${row.name}` : "Set a config of all brokers", confirm: "Set",
    fields: row ? [row.type === "boolean" ? { ...field, kind: "choice", options: { true: "true", false: "false" } } : field] : [key, field],
    request: (v) => ({ kind, name, key: row?.name ?? v.key, value: v.value }),
  };
}

const unset = (kind, name, row) => ({
  name: "set-config", title: `Return ${row.name} to its default`, confirm: "Unset",
  request: () => ({ kind, name, key: row.name, value: null }),
});
