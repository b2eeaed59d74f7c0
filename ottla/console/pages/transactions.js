import { duration, el, link, notShown, number, pager, pairs, scroll, search, table } from "./dom.js";
import { act, acts } from "./actions.js";
import { sequence } from "./sequence.js";

export const transactions = {
  form: (p) => search("transactions", p, "transactional ids that contain"),
  draw: ({ part, missing }, p) => [
    el("h1", {}, "Transactions"),
    notShown(missing, "ottla txn list"),
    pager("transactions", p, part),
    table(["transactional id", "state", "open for", "timeout", "partitions", "producer", "client"], part.rows.map((row) => ({
      kind: row.open_ms === null ? null : "ongoing",
      cells: [
        link(row.transactional_id, "transaction", { id: row.transactional_id }), row.state,
        row.open_ms === null ? "" : duration(row.open_ms), duration(row.timeout_ms), row.partitions,
        `${row.producer_id} epoch ${row.producer_epoch}`, row.client,
      ],
    }))),
  ],
};

export const transaction = {
  under: "transactions",
  title: (p) => p.id,
  draw: (t) => [
    el("h1", {}, t.transactional_id),
    pairs([
      ["state", t.open_ms === null ? t.state : `${t.state} for ${duration(t.open_ms)} of ${duration(t.timeout_ms)}`],
      ["producer", `${t.producer_id} epoch ${t.producer_epoch}`],
      ["client", t.client || "unknown since the broker started"],
      ["partitions", t.partitions.join(" ") || "none"],
    ]),
    t.state === "Ongoing" ? acts(act("abort the transaction", abort(t))) : null,
    el("h2", {}, "Timeline"),
    t.unread.length ? el("p", { class: "note" }, `not shown: ${t.unread.join("; ")}; ottla txn timeline shows it`) : null,
    t.earlier ? el("p", { class: "note" }, `${number(t.earlier)} earlier events are not shown; ottla txn timeline shows them`) : null,
    scroll(sequence(t.transactional_id, t.events), "timeline"),
  ].filter(Boolean),
};

const abort = (t) => ({
  name: "abort-transaction", title: `Abort the transaction of ${t.transactional_id}`, confirm: "Abort", isDanger: true,
  request: () => ({ id: t.transactional_id, producer_id: t.producer_id, producer_epoch: t.producer_epoch }),
});
