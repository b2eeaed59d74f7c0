// The search dialog of all pages (key /), for topics, groups and transactional ids whose name contains a text.

import { el, link } from "./dom.js";
import { Live } from "./control.js";

const ASK_AFTER_MS = 150;
const KINDS = {
  topics: ["Topics", "topic", "name"],
  groups: ["Groups", "group", "name"],
  transactions: ["Transactional ids", "transaction", "id"],
};

export function find() {
  if (document.querySelector("dialog[open]")) return;
  // The field is not of the type search, in which Escape would empty the field instead of closing the dialog.
  const field = el("input", { id: "match", autocomplete: "off", spellcheck: "false", maxlength: 249 });
  const results = el("div", { role: "status" });
  const dialog = el("dialog", { id: "found", "aria-labelledby": "find-title", onclose: closed, onkeydown: step },
    el("form", { onsubmit: go, oninput: changed }, el("label", { for: "match", id: "find-title" }, "Search topics, groups and transactional ids"), field), results);
  let live = null;
  let timer = null;

  function changed() {
    clearTimeout(timer);
    timer = setTimeout(ask, ASK_AFTER_MS);
  }

  function ask() {
    live?.close();
    // Ignore a late response for an earlier text. Close after the first values, because the server would send new values forever.
    const mine = new Live(`v1/found?${new URLSearchParams({ match: field.value })}`, {
      values: (found) => {
        mine.close();
        if (mine === live) draw(found);
      },
      refused: complain,
      ended: complain,
    });
    live = mine;
  }

  function draw(found) {
    const chosen = results.contains(document.activeElement) ? document.activeElement.textContent : null;
    const parts = Object.entries(KINDS).filter(([kind]) => found[kind].length).flatMap(([kind, [text, page, parameter]]) => [
      el("h2", {}, text), el("ul", {}, found[kind].map((name) => el("li", {}, link(name, page, { [parameter]: name })))),
    ]);
    results.replaceChildren(...(parts.length ? parts : [el("p", { class: "note" }, "no name contains this text")]),
      ...found.missing.map((line) => el("p", { class: "note" }, `not searched: ${line}`)));
    const links = [...results.querySelectorAll("a")];
    for (const each of links) each.addEventListener("click", () => dialog.close());
    // Restore the focus of a user who has moved to the results before this response.
    if (chosen !== null) (links.find((each) => each.textContent === chosen) ?? field).focus();
  }

  function complain(error) {
    if (error) results.replaceChildren(el("p", { class: "wrong" }, error.message));
  }

  function go(event) {
    event.preventDefault();
    results.querySelector("a")?.click();
  }

  function step(event) {
    const way = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!way) return;
    event.preventDefault();
    const stops = [field, ...results.querySelectorAll("a")];
    stops[(stops.indexOf(document.activeElement) + way + stops.length) % stops.length].focus();
  }

  function closed() {
    clearTimeout(timer);
    live?.close();
    dialog.remove();
  }

  document.body.append(dialog);
  dialog.showModal();
  ask();
}
