// Downloads all records that the query of the page `messages` selects, not only the records on the page.

import { el, number } from "./dom.js";
import { Live } from "./control.js";

const KINDS = { jsonl: ["JSON lines", "application/x-ndjson"], csv: ["CSV", "text/csv"] };
// A byte order mark. Without it, spreadsheets read CSV in the machine's encoding.
const UTF_8 = "\ufeff";

let running = null;

export function downloads(p) {
  const state = el("span", { class: "note", role: "status", id: "downloaded" });
  const stop = el("button", { type: "button", hidden: true, onclick: () => finish("stopped") }, "stop the download");
  const buttons = Object.entries(KINDS).map(([format, [name]]) =>
    el("button", { type: "button", id: `download-${format}`, onclick: () => start(p, format, say, finish) }, `download ${name}`));
  // The form is created again when the page changes. Stop the download of the previous page.
  running?.close();
  running = null;
  const say = (text) => {
    state.textContent = text;
    stop.hidden = running === null;
    for (const button of buttons) button.disabled = running !== null;
  };
  const finish = (text) => {
    running?.close();
    running = null;
    say(text);
  };
  return el("span", { class: "downloads" }, buttons, stop, state);
}

function start({ at, ...p }, format, say, finish) {
  const parts = format === "csv" ? [UTF_8] : [];
  let size = 0;
  running = new Live(`v1/download?${new URLSearchParams({ ...p, format })}`, {
    part: (text) => {
      parts.push(text);
      size += text.length;
      say(`${number(size)} characters`);
    },
    done: ({ records, limit, problems }) => {
      save(new Blob(parts, { type: KINDS[format][1] }), `${p.topic}.${format}`);
      finish([`${number(records)} records`, limit && `ended at the limit of ${limit}`, ...problems].filter(Boolean).join("; "));
    },
    refused: (error) => finish(error.message),
    ended: (error) => running && finish(error?.message ?? "the download ended early; try again"),
  });
  say("downloading");
}

function save(blob, name) {
  const address = URL.createObjectURL(blob);
  el("a", { href: address, download: name }).click();
  // The browser reads the blob after `click` has returned.
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
