import { dotted, duration, el, isWide, link, size, table } from "./dom.js";
import { DAY_MS, act } from "./actions.js";

const TYPES = { int: "a whole number", long: "a whole number", short: "a whole number", double: "a number", string: "a text", list: "a list, separated by commas" };
const SOURCES = { default: "the default", static: "the broker's properties" };
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
        cells: [el("code", { "data-config": row.name }, dotted(row.name)), value(row, row.value), defaultOf(kind, row),
          SOURCES[row.source] ?? row.source, edits(kind, name, row), el("details", { class: "more note doc", open: isWide() }, el("summary", {}, "documentation"), plain(row.documentation))],
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

function value(row, text) {
  if (row.is_sensitive) return el("span", { class: "note" }, "hidden");
  const larger = inUnits(row.name, text);
  return el("span", { class: "text" }, text ?? "", larger ? el("span", { class: "note" }, ` (${larger})`) : null);
}

// The value that applies without the resource's own value. It is unknown for a value from the broker's properties.
function defaultOf(kind, row) {
  if (row.is_own) return value(row, row.default);
  return kind === "broker" && row.source === "static" ? "" : value(row, row.value);
}

// A number of ms or bytes in larger units; null for other configs. Negative and the largest numbers mean no limit.
function inUnits(name, text) {
  if (!/^[0-9]{4,15}$/.test(text ?? "")) return null;
  if (/[.]ms$/.test(name)) return Number(text) >= 2 * DAY_MS ? `${Number((Number(text) / DAY_MS).toFixed(1))} days` : duration(Number(text));
  return /[.]bytes$/.test(name) ? size(Number(text)) : null;
}

// The unit that a config's name contains, and its type.
function expected(row) {
  const unit = /[.]ms$/.test(row.name) ? "a number of ms" : /[.]bytes$/.test(row.name) ? "a number of bytes" : TYPES[row.type] ?? row.type;
  return [unit, plain(row.documentation)].filter(Boolean).join(": ");
}

function edits(kind, name, row) {
  if (row.is_read_only) return el("span", { class: "note" }, "set only at the broker's start");
  return [act("edit", set(kind, name, row), `edit ${row.name}`), row.is_own ? act("unset", unset(kind, name, row), `unset ${row.name}`) : null];
}

function set(kind, name, row) {
  const key = { name: "key", label: "config", isRequired: true };
  const field = { name: "value", label: "value", value: row?.is_sensitive ? "" : row?.value, hint: row ? expected(row) : null };
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
