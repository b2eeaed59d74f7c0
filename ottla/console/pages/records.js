// Shows keys, values and headers of records as text. Characters that would hide or reorder text are shown as escape sequences.

import { el, number } from "./dom.js";

const MOST_DEPTH = 60;
const OPEN_CHILDREN = 30;
// Control characters except tab and line ends, invisible characters, and characters that change the direction of text.
const HIDDEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;
export const FORMATS = { auto: "recognised", json: "JSON", text: "text", msgpack: "MessagePack", cbor: "CBOR", int: "integer", hex: "hexadecimal", schema: "schema" };

export const visible = (text) => text.replace(HIDDEN, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);

// A JSON number as the producer has written it. Browsers without `context.source` show the parsed number.
class Digits {
  constructor(text) {
    this.text = text;
  }
}

function parsed(text) {
  try {
    return { value: JSON.parse(text, (key, value, context) => (typeof value === "number" && context?.source ? new Digits(context.source) : value)) };
  } catch {
    return null;
  }
}

// Shows a JSON value as a tree whose lists and objects can be collapsed.
function tree(value, depth = 0) {
  if (value instanceof Digits) return el("span", {}, value.text);
  if (value === null || typeof value !== "object") return el("span", {}, visible(JSON.stringify(value)));
  const isList = Array.isArray(value);
  const entries = Object.entries(value);
  const [open, close] = isList ? ["[", "]"] : ["{", "}"];
  if (entries.length === 0) return el("span", {}, open + close);
  if (depth >= MOST_DEPTH) return el("span", { class: "note" }, `${open} nested more than ${MOST_DEPTH} levels deep ${close}`);
  const lines = () => entries.map(([name, one]) => el("div", {}, isList ? null : `${visible(JSON.stringify(name))}: `, tree(one, depth + 1)));
  const isOpen = depth === 0 || entries.length <= OPEN_CHILDREN;
  const shown = el("details", { open: isOpen }, el("summary", {}, `${open} ${number(entries.length)} ${close}`));
  if (isOpen) shown.append(...lines());
  // A collapsed list may have a hundred thousand elements, which are created only when the user expands the list.
  else shown.addEventListener("toggle", () => shown.childElementCount === 1 && shown.append(...lines()));
  return shown;
}

// Shows a value on one line, or with `isWhole` as a tree if it is JSON.
export function bytes(value, isWhole = false) {
  if (value === null) return el("span", { class: "note" }, "null");
  const note = el("span", { class: "kind note" }, [value.kind, value.is_cut ? `the first part of ${number(value.size_bytes)} bytes` : null, value.problem || null].filter(Boolean).join(", "));
  const json = value.is_json && isWhole ? parsed(value.text) : null;
  if (json !== null) return el("div", { class: "json" }, tree(json.value), note);
  const text = el("span", { class: value.kind === "hex" ? "hex" : "text" }, visible(value.text), value.is_cut ? "…" : null);
  return value.kind === "text" && !value.is_cut && !value.problem ? text : el("div", {}, text, note);
}

export function headers(record) {
  const shown = record.headers.map((header) => el("div", {}, `${visible(header.name)}: `, bytes(header.value)));
  if (record.more_headers) shown.push(el("div", { class: "note" }, `and ${number(record.more_headers)} more`));
  return shown;
}

const OUTCOMES = { aborted: "an aborted", committed: "a committed", open: "an open" };

export const producer = (record) =>
  record.producer_id < 0 ? "" : `${record.producer_id} epoch ${record.producer_epoch}${record.is_transactional ? `, in ${record.outcome ? `${OUTCOMES[record.outcome]} transaction` : "a transaction"}` : ""}`;
