import { el, link, number, pairs, time } from "./dom.js";
import { FORMATS, bytes, headers, producer } from "./records.js";

function copy(label, text) {
  const button = el("button", { type: "button", "aria-label": label }, label);
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "copied";
    } catch {
      button.textContent = "the browser did not allow it";
    }
  });
  return button;
}

function formats(r, p) {
  const choice = (name) => {
    const field = el("select", { id: name }, Object.entries(FORMATS).map(([value, text]) => el("option", { value, selected: value === (p[name] ?? "auto") }, text)));
    field.addEventListener("change", () => {
      location.hash = `record?${new URLSearchParams({ ...p, [name]: field.value })}`;
    });
    return field;
  };
  return el("form", {}, el("label", { for: "as_key" }, "key as"), choice("as_key"), el("label", { for: "as_value" }, "value as"), choice("as_value"));
}

export const record = {
  under: "topics",
  title: (p) => `${p.topic}:${p.partition} offset ${p.offset}`,
  form: (p) => formats(null, p),
  draw: (r, p) => {
    const at = (offset) => ({ ...p, offset });
    return [
      el("h1", {}, link(r.topic, "messages", { topic: r.topic }), ` : ${r.partition} offset ${number(r.offset)}`),
      el("div", { class: "pager" },
        r.offset > r.log_start_offset ? link("offset before", "record", at(r.offset - 1)) : null,
        r.offset + 1 < r.high_watermark ? link("offset after", "record", at(r.offset + 1)) : null,
        copy("copy link", location.href),
        r.value === null || r.value.is_cut ? null : copy("copy value", r.value.text),
        r.command === "" ? null : copy("copy as ottla produce", r.command)),
      pairs([
        ["time", time(r.timestamp_ms)],
        ["producer", producer(r) || "none"],
        ["key", r.control === null ? bytes(r.key, true) : ""],
        ["headers", headers(r)],
        ["value", r.control === null ? bytes(r.value, true) : `${r.control} marker`],
      ]),
      r.command === "" ? el("p", { class: "note" }, `no command writes this record: ${r.command_problem}`) : null,
    ].filter(Boolean);
  },
};
