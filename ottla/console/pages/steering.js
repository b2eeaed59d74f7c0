import { el, table, time } from "./dom.js";
import { command } from "./control.js";
import { isReadOnly } from "./mode.js";

const EXAMPLE = "api: EndTxn\ndrop_answer: true\ntransactional_id: shop";

// Sends a command, and shows its error in the element `said`.
async function asked(said, method, path, body) {
  said.textContent = "";
  try {
    await command(method, path, body);
    return true;
  } catch (error) {
    said.textContent = error.message;
    return false;
  }
}

export const steering = {
  label: "control",
  form: () => {
    if (isReadOnly) return el("h1", {}, "Faults and the clock");
    const said = el("p", { class: "wrong", id: "said", role: "alert" });
    const fault = el("textarea", { id: "fault", rows: 5, cols: 60, placeholder: EXAMPLE, spellcheck: "false" });
    const add = async (event) => {
      event.preventDefault();
      if (await asked(said, "POST", "/v1/faults", fault.value)) fault.value = "";
    };
    const by = el("input", { id: "by", type: "number", min: 0, value: 60, size: 8 });
    const advance = async (event) => {
      event.preventDefault();
      await asked(said, "POST", "/v1/clock/advance", JSON.stringify({ by_ms: Math.round(Number(by.value) * 1000) }));
    };
    return el("div", {},
      el("h1", {}, "Faults and the clock"),
      el("form", { onsubmit: add, id: "add" }, el("label", { for: "fault" }, "fault in YAML or JSON"), fault, el("button", {}, "add")),
      el("form", { onsubmit: advance, id: "advance" }, el("label", { for: "by" }, "advance the clock by"), by, "seconds", el("button", {}, "advance")),
      said);
  },
  draw: (s, p, { say }) => [
    el("p", {}, s.clock_ms === null ? "The broker uses the machine's clock, which cannot be advanced; start it with --clock manual."
      : `The manual clock is at ${time(s.clock_ms)}.`),
    el("h2", {}, "Faults"),
    s.faults.length === 0 ? el("p", { class: "note" }, "none")
      : table(["", "fault", "hits", "matched", "newest hits", ""], s.faults.map((fault) => row(fault, say))),
  ],
};

function nameOf(hit) {
  return hit.point ?? (hit.listener ? `TLS handshake of ${hit.listener}` : `${hit.api} ${hit.version}`);
}

function row(view, say) {
  const given = Object.entries(view.fault).filter(([, value]) => value !== null && value !== false)
    .map(([name, value]) => `${name}: ${typeof value === "object" ? JSON.stringify(value) : value}`).join(", ");
  const remove = async () => {
    try {
      await command("DELETE", `/v1/faults/${view.id}`);
    } catch (error) {
      say(error.message, true);
    }
  };
  const newest = view.newest_hits.slice(-3).map((hit) => el("div", {}, `${nameOf(hit)} ${hit.client_id ?? hit.client_host ?? ""}`));
  return {
    kind: view.is_spent ? "spent" : null,
    cells: [String(view.id), given, view.hits, view.matched, newest, isReadOnly ? "" : el("button", { onclick: remove, "aria-label": `remove fault ${view.id}` }, "remove")],
  };
}
