// Actions: a dialog with the parameters, a preview of the effects, the equivalent command, and a button that confirms the action.

import { el, table, withOptions } from "./dom.js";
import { command } from "./control.js";
import { isReadOnly } from "./mode.js";

const PREVIEW_AFTER_MS = 200;
// The effects while there is no preview of the current values.
const NOTHING = { command: "", warning: "", columns: [], rows: [], more_rows: 0 };

// Returns a button that opens an action's dialog, or null in a read-only console. An action has
// - name: its name on the server; title and confirm: the texts of the dialog and of its confirming button;
// - fields: each with name, label, kind (text, number, long, choice, check, time), and optional value, options, hint,
//   isRequired, when (a function of all values that returns whether to show the field), and suggested (a function that passes a
//   list of values to its argument);
// - request: a function from the values to the parameters; isDanger: whether the confirming button is red;
//   goes: whether to go to the page in the response.
export function act(text, action, label = null) {
  if (isReadOnly) return null;
  return el("button", { type: "button", "data-act": action.name, "aria-label": label, onclick: () => open(action) }, text);
}

export const acts = (...buttons) => (isReadOnly ? null : el("div", { class: "acts" }, buttons));

function open(action) {
  const inputs = new Map((action.fields ?? []).map((field) => [field, input(field)]));
  const refused = el("p", { class: "wrong", role: "alert" });
  const checking = el("span", { class: "note", hidden: true }, "checking the values");
  const warning = el("p", {});
  const preview = el("div", { class: "preview", tabindex: 0, role: "region", "aria-label": "what will change" });
  const code = el("code", {});
  const shown = el("div", { class: "command" }, code, el("button", { type: "button", onclick: () => copy(code) }, "copy"));
  const equivalent = el("div", { hidden: true }, el("span", { class: "note" }, "equivalent command"), shown);
  const confirm = el("button", { class: action.isDanger ? "danger" : "strong", disabled: true }, action.confirm ?? action.title);
  const cancel = el("button", { type: "button", onclick: () => dialog.close() }, "cancel");
  const rows = [...inputs].map(([field, made]) => el("div", { class: "field" }, el("label", { for: made.id }, field.label), el("div", {}, made, suggestions(field), hint(field))));
  const form = el("form", { onsubmit: submit, oninput: changed },
    el("h2", { id: "act-title" }, action.title), rows, refused, warning, preview,
    equivalent, el("div", { class: "acts" }, checking, cancel, confirm));
  const dialog = el("dialog", { "aria-labelledby": "act-title", id: "act", onclose: closed }, form);
  const opener = nameOf(document.activeElement);
  let asked = 0;
  let timer = null;
  let previewed = null;

  function values() {
    return Object.fromEntries([...inputs].map(([field, made]) => [field.name, field.kind === "check" ? made.checked : made.value]));
  }

  function arrange() {
    const all = values();
    [...inputs.keys()].forEach((field, at) => {
      rows[at].hidden = field.when ? !field.when(all) : false;
      rows[at].style.display = rows[at].hidden ? "none" : "";
    });
  }

  function changed() {
    arrange();
    confirm.disabled = true;
    checking.hidden = false;
    asked += 1;
    clearTimeout(timer);
    timer = setTimeout(ask, PREVIEW_AFTER_MS);
  }

  // The confirming button is enabled after the preview of the current values, and sends the previewed parameters with values that the
  // server has looked up, such as the offset of a time.
  async function ask() {
    const mine = asked;
    if ([...inputs].some(([field, made]) => field.isRequired && made.value === "")) {
      checking.hidden = true;
      refused.textContent = "";
      draw(NOTHING);
      return;
    }
    try {
      const request = action.request(values());
      const effects = await command("POST", `previews/${action.name}`, JSON.stringify(request));
      if (mine !== asked) return;
      previewed = { ...request, ...effects.confirmed };
      refused.textContent = "";
      draw(effects);
      confirm.disabled = false;
    } catch (error) {
      if (mine === asked) {
        refused.textContent = error.message;
        draw(NOTHING);
      }
    }
    if (mine === asked) checking.hidden = true;
  }

  function draw(effects) {
    warning.replaceChildren(effects.warning ? el("strong", {}, sentence(effects.warning)) : "");
    preview.replaceChildren(...(effects.rows.length ? [table(effects.columns, effects.rows)] : []),
      effects.more_rows ? `and ${effects.more_rows} more` : "");
    preview.style.display = effects.rows.length ? "" : "none";
    code.replaceChildren(...withOptions(effects.command));
    equivalent.hidden = !effects.command;
  }

  async function submit(event) {
    event.preventDefault();
    const mine = asked;
    confirm.disabled = true;
    refused.textContent = "";
    try {
      const effects = await command("POST", `actions/${action.name}`, JSON.stringify(previewed));
      dialog.close();
      document.dispatchEvent(new CustomEvent("acted", { detail: { ...effects, goes: Boolean(action.goes) } }));
    } catch (error) {
      refused.textContent = error.message;
      // If the user has changed a value meanwhile, the preview of the new values enables the button.
      if (mine === asked) confirm.disabled = false;
    }
  }

  function closed() {
    clearTimeout(timer);
    asked += 1;
    dialog.remove();
    // The page may have replaced the button that opened the dialog, so find it by its name.
    [...document.querySelectorAll("[data-act]")].find((one) => nameOf(one) === opener)?.focus();
  }

  document.body.append(dialog);
  arrange();
  draw(NOTHING);
  dialog.showModal();
  if (!inputs.size) cancel.focus();
  ask();
}

const nameOf = (element) => element?.getAttribute("aria-label") ?? element?.textContent;
const sentence = (text) => text[0].toUpperCase() + text.slice(1) + ".";

function input(field) {
  const properties = { id: `act-${field.name}`, name: field.name, "aria-describedby": field.hint ? `hint-${field.name}` : null, autocomplete: "off" };
  if (field.kind === "choice") {
    return el("select", properties, Object.entries(field.options).map(([value, text]) => el("option", { value, selected: value === field.value }, text)));
  }
  if (field.kind === "long") return el("textarea", { ...properties, rows: field.rows ?? 4, spellcheck: "false" }, field.value ?? "");
  if (field.kind === "check") return el("input", { ...properties, type: "checkbox", checked: Boolean(field.value) });
  const kind = { number: { type: "number", min: field.min ?? 0 }, time: { type: "datetime-local", step: 0.001 } }[field.kind] ?? { spellcheck: "false" };
  return el("input", { ...properties, ...kind, list: field.suggested ? `values-${field.name}` : null, value: field.value ?? "" });
}

function suggestions(field) {
  if (!field.suggested) return null;
  const list = el("datalist", { id: `values-${field.name}` });
  field.suggested((values) => list.replaceChildren(...values.map((value) => el("option", { value }))));
  return list;
}

const hint = (field) => field.hint ? el("div", { class: "note", id: `hint-${field.name}` }, field.hint) : null;

// Copies the command, or selects it if the browser denies access to the clipboard, as it does for HTTP pages of other machines.
async function copy(code) {
  try {
    await navigator.clipboard.writeText(code.textContent);
  } catch {
    document.getSelection().selectAllChildren(code);
  }
}

export const DAY_MS = 86_400_000;

export const numberOrNull = (text) => (text === "" ? null : Number(text));

// `placeFields` returns the fields for a place in a topic, and `placeOf` their value. `options` are the places with their texts, the
// first of which is selected. Times are in the browser's time zone.
export const placeFields = (label, options) => [
  { name: "place", label, kind: "choice", options },
  { name: "offset", label: "offset", kind: "number", when: (v) => v.place === "offset" },
  { name: "time", label: "time", kind: "time", hint: `in the time zone ${Intl.DateTimeFormat().resolvedOptions().timeZone}`, when: (v) => v.place === "time" },
];

// An empty field is an error: the offset 0 or the year 1970 would select other records than the user expects.
export function placeOf(v) {
  if (v.place === "day") return { kind: "time", number: Date.now() - DAY_MS };
  if (v.place === "offset") {
    if (!/^[0-9]+$/.test(v.offset)) throw new Error("give an offset");
    return { kind: "offset", number: Number(v.offset) };
  }
  if (v.place === "time") {
    const number = new Date(v.time).getTime();
    if (!(number >= 0)) throw new Error("give a date and a time after 1970");
    return { kind: "time", number };
  }
  return { kind: v.place, number: 0 };
}
