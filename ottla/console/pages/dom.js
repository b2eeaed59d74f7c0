// Creates elements. Names chosen by clients are set as text and never parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined) element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

export const el = (tag, properties = {}, ...children) => fill(document.createElement(tag), properties, children);
export const svg = (tag, properties = {}, ...children) => fill(document.createElementNS(SVG, tag), properties, children);
export const number = (value) => (value < 0 ? "-" : value.toLocaleString("en"));

// Formats a timestamp. Clients may set any number; numbers outside the range of Date are shown as they are. -1 means no timestamp.
export function time(ms) {
  if (ms === null || ms === -1) return "-";
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? String(ms) : date.toISOString();
}

// Lists the parts of the cluster whose rows are missing, and the command that shows the rows of all brokers.
export const notShown = (missing, command) =>
  missing.length ? el("p", { class: "note" }, `not shown: ${missing.join("; ")}. ${command} shows the rows of all brokers.`) : "";

export function duration(ms) {
  const s = Math.max(0, ms) / 1000;
  if (s < 60) return `${s.toFixed(1)} s`;
  const min = Math.floor(s / 60);
  return min < 60 ? `${min} min ${Math.floor(s % 60)} s` : `${Math.floor(min / 60)} h ${min % 60} min`;
}

// Formats the time since the first event of a timeline. Events are often few ms apart, also hours after the first event, so the text
// always has the ms.
export function elapsed(ms) {
  if (ms < 1_000) return `${ms} ms`;
  const min = Math.floor(ms / 60_000);
  const s = `${((ms % 60_000) / 1_000).toFixed(3)} s`;
  if (min === 0) return s;
  return min < 60 ? `${min} min ${s}` : `${Math.floor(min / 60)} h ${min % 60} min ${s}`;
}

export function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  for (; bytes >= 1024 && at < units.length - 1; at++) bytes /= 1024;
  return `${at === 0 ? bytes : bytes.toFixed(1)} ${units[at]}`;
}

// Returns whether the screen is wide enough to show the parts of class `more` at once. The style sheets have the same limit.
export const isWide = () => matchMedia("(min-width: 641px)").matches;

// Returns the children that show a name, which may break after dots, hyphens and underscores, as in retention.ms. Otherwise a narrow
// column would break it inside a word.
export const dotted = (name) => name.split(/(?<=[._-])/).flatMap((part, index) => (index ? [el("wbr"), part] : [part]));

// Returns the children that show a text with commands. Browsers would break the name of an option, such as --replication-factor,
// after each of its hyphens.
export const withOptions = (text) => text.split(/(?<=^|\s)(--[a-z][a-z-]*)/).map((part, index) => (index % 2 ? el("span", { class: "option" }, part) : part));

// Creates a link to a page of the console. The page is in the fragment, which does not reach a server's log.
export const link = (text, page, parameters = {}, kind = null) =>
  el("a", { href: `#${page}?${new URLSearchParams(parameters)}`, class: kind }, typeof text === "string" ? dotted(text) : text);

export function table(columns, rows, kind = null) {
  const cell = (value) => el("td", typeof value === "number" ? { class: "number" } : {}, typeof value === "number" ? number(value) : value);
  const line = (row) => el("tr", row.kind ? { class: row.kind } : {}, (row.cells ?? row).map(cell));
  const head = el("thead", {}, el("tr", {}, columns.map((column) => (column ? el("th", { scope: "col" }, column) : el("td")))));
  return scroll(el("table", { class: kind }, head, el("tbody", {}, rows.map(line))), "table");
}

// Wraps an element that may be wider than the screen, so that the element scrolls and the page does not.
export const scroll = (wide, name) => el("div", { class: "scroll", "data-name": name }, wide);

export function pairs(rows) {
  return el("table", {}, el("tbody", {}, rows.map(([name, value]) => el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, value)))));
}

export function pager(page, parameters, part) {
  const shown = part.total ? `${number(part.start + 1)} to ${number(part.start + part.rows.length)} of ${number(part.total)}` : "none";
  const at = (start) => ({ ...parameters, start });
  return el("div", { class: "pager" }, el("span", {}, shown),
    part.start > 0 ? link("before", page, at(Math.max(0, part.start - part.limit))) : null,
    part.start + part.rows.length < part.total ? link("next", page, at(part.start + part.limit)) : null);
}

export function search(page, parameters, text) {
  const field = el("input", { id: "search", value: parameters.match ?? "", maxlength: 249 });
  const go = (event) => {
    event.preventDefault();
    location.hash = `${page}?${new URLSearchParams({ match: field.value })}`;
  };
  return el("form", { onsubmit: go }, el("label", { for: "search" }, text), field, el("button", {}, "show"));
}
