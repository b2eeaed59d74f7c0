"""``ottla txn``: lists, describes and aborts transactions. The subcommands ``timeline`` and ``why`` have modules of their own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ottla.cli.commands import CommandGroup, Lazy
from ottla.cli.control import cluster_and_control_api, finds_control_api, time_of
from ottla.cli.options import (
    LISTED_IN_PART,
    SECONDS,
    TOPIC_PARTITION,
    Checked,
    asks,
    check_all_answered,
    cluster_at,
    seen_by,
    topics_option,
)
from ottla.cli.output import NOTHING, note, progress, short, show_json, show_line, show_pairs, show_table, time_text
from ottla.client.durations import duration_text

if TYPE_CHECKING:
    from ottla.client import ClientError
    from ottla.client.admin.transactions import HangingTransaction, TransactionDescription

LAZY: Final[dict[str, Lazy]] = {
    "why": Lazy("txn_why", "explain what stops read_committed consumers, and what to do"),
    "timeline": Lazy("txn_timeline", "show the history of a transactional id"),
}
DEFAULT_OLDER_THAN_S: Final = 900.0
ABORT_HELP = """Abort an open transaction.

With TRANSACTIONAL_ID, the coordinator aborts the transaction and fences its producer: the producer's next request fails.

With --partition and --start-offset, write an abort marker into one partition for a hanging transaction that no
coordinator knows of; ottla txn find-hanging prints both."""


@click.group("txn", cls=CommandGroup, lazy=LAZY, help="List, describe and abort transactions, and find hanging ones.")
def command() -> None:
    pass


@command.command("list", help=f"List the transactional ids of all coordinators. {LISTED_IN_PART}")
@click.option(
    "--state",
    "states",
    multiple=True,
    metavar="STATE",
    help="Transaction state to list, e.g. Ongoing; repeatable (default: all states).",
)
@asks
def list_(states: tuple[str, ...], bootstrap: str, timeout_s: float, as_json: bool) -> None:
    from ottla.client.admin import transactions

    silent: list[ClientError] = []
    with cluster_at(bootstrap, timeout_s) as cluster:
        listings = transactions.list_transactions(cluster.brokers, states=states, silent=silent)
        seen = seen_by(cluster, listings or silent)
    if as_json:
        show_json(
            [
                {
                    "transactional_id": t.transactional_id,
                    "producer_id": t.producer_id,
                    "state": t.state,
                    "coordinator": t.coordinator,
                }
                for t in listings
            ]
        )
    elif listings:
        rows = [(short(t.transactional_id), str(t.producer_id), t.state, t.coordinator) for t in listings]
        show_table(["TRANSACTIONAL ID", "PRODUCER", "STATE", "COORDINATOR"], rows)
    elif not silent:
        note("there are no transactional ids" + (" in this state" if states else "") + seen)
    check_all_answered(silent)


@command.command("describe", help="Show the coordinator's state of a transactional id.")
@click.argument("transactional_id", metavar="TRANSACTIONAL_ID")
@asks
@finds_control_api
def describe(
    transactional_id: str,
    bootstrap: str,
    timeout_s: float,
    as_json: bool,
    url: str | None,
    token: str | None,
    ready_file: Path | None,
) -> None:
    with cluster_and_control_api(bootstrap, timeout_s, url, token, ready_file) as (cluster, control_api):
        transaction = cluster.transaction(transactional_id)
        now_ms = time_of(control_api)
    if as_json:
        show_json(
            {
                "transactional_id": transaction.transactional_id,
                "state": transaction.state,
                "producer_id": transaction.producer_id,
                "epoch": transaction.epoch,
                "timeout_ms": transaction.timeout_ms,
                "start_ms": transaction.start_ms,
                "partitions": [{"topic": topic, "partition": index} for topic, index in transaction.partitions],
            }
        )
        return
    show_pairs(
        [
            ("transactional id", transaction.transactional_id),
            ("state", transaction.state),
            ("producer", f"{transaction.producer_id} epoch {transaction.epoch}"),
            ("timeout", duration_text(transaction.timeout_ms)),
            ("began", time_text(transaction.start_ms)),
            ("open for", _open_for(transaction, now_ms)),
            ("partitions", " ".join(f"{topic}:{index}" for topic, index in transaction.partitions) or NOTHING),
        ]
    )


def _open_for(transaction: TransactionDescription, now_ms: int) -> str:
    from ottla.client.explain.reasons import open_text

    if transaction.start_ms is None:
        return NOTHING
    if not transaction.is_ongoing:
        return f"{transaction.state}: it is being completed"
    return open_text(transaction.start_ms, transaction.timeout_ms, now_ms)


def _offset(text: str) -> int:
    from ottla.arguments import BadArgument

    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise BadArgument(f"{text!r} is not an offset, 0 or more")
    return int(text)


@command.command("abort", help=ABORT_HELP)
@click.argument("transactional_id", required=False, metavar="[TRANSACTIONAL_ID]")
@click.option("--partition", type=TOPIC_PARTITION, metavar="TOPIC:P", help="Partition of a hanging transaction.")
@click.option("--start-offset", type=Checked("offset", _offset), metavar="OFFSET", help="First offset of the hanging transaction.")
@asks
def abort(
    transactional_id: str | None,
    partition: tuple[str, int] | None,
    start_offset: int | None,
    bootstrap: str,
    timeout_s: float,
    as_json: bool,
) -> None:
    from ottla.client.admin import transactions

    is_hanging = partition is not None or start_offset is not None
    if (transactional_id is None) == (not is_hanging) or (partition is None) != (start_offset is None):
        raise click.UsageError("give TRANSACTIONAL_ID, or both --partition and --start-offset")
    with cluster_at(bootstrap, timeout_s) as cluster:
        if transactional_id is not None:
            before = transactions.abort(cluster.brokers, transactional_id)
            is_aborted = before.is_ongoing
            document: dict[str, Any] = {
                "transactional_id": transactional_id,
                "aborted": is_aborted,
                "producer_id": before.producer_id,
            }
            text = f"{_what_was_aborted(before)}; its producer {before.producer_id} epoch {before.epoch} is fenced"
        else:
            assert partition is not None
            assert start_offset is not None
            aborted = transactions.abort_in_partition(cluster.brokers, *partition, start_offset)
            document = {
                "topic": aborted.topic,
                "partition": aborted.partition,
                "start_offset": start_offset,
                "producer_id": aborted.producer_id,
                "aborted": True,
            }
            text = f"an abort marker for producer {aborted.producer_id} was written into {aborted.topic}:{aborted.partition}"
    if as_json:
        show_json(document)
    else:
        show_line(text)


def _what_was_aborted(before: TransactionDescription) -> str:
    """Describe what the abort did. ``before`` is the state from before the abort."""
    if before.start_ms is None:
        return f"{before.transactional_id} had no open transaction"
    if not before.is_ongoing:
        return f"the transaction of {before.transactional_id} was decided already ({before.state})"
    return f"the transaction of {before.transactional_id} was aborted"


@command.command("find-hanging", help="Find open transactions that no coordinator knows of and that will never end.")
@topics_option("Topic or partition to search; repeatable (default: all).")
@click.option(
    "--older-than-s",
    type=SECONDS,
    default=DEFAULT_OLDER_THAN_S,
    metavar="S",
    help=f"Minimum time since the last write, in seconds; give more than transaction.max.timeout.ms"
    f" (default: {DEFAULT_OLDER_THAN_S:g}).",
)
@asks
@finds_control_api
def find_hanging(
    topics: tuple[tuple[str, int | None], ...],
    older_than_s: float,
    bootstrap: str,
    timeout_s: float,
    as_json: bool,
    url: str | None,
    token: str | None,
    ready_file: Path | None,
) -> None:
    from ottla.client.admin import transactions
    from ottla.client.admin.acls import has_authorizer

    hanging: list[HangingTransaction] = []
    with cluster_and_control_api(bootstrap, timeout_s, url, token, ready_file) as (cluster, control_api):
        now_ms = time_of(control_api)
        wanted = topics or tuple((listing.name, None) for listing in cluster.topics(internal=True))
        with progress("looking through topics", len(wanted)) as advance:
            for topic, index in wanted:
                hanging += transactions.find_hanging(
                    cluster.brokers,
                    [topic],
                    partition=index,
                    max_timeout_ms=round(older_than_s * 1_000),
                    now_ms=now_ms,
                    progress=lambda _: advance(1),
                )
        may_be_hidden = bool(hanging) and has_authorizer(cluster.brokers)
    if as_json:
        show_json([_hanging_document(h) for h in hanging])
    elif hanging:
        show_table(
            ["PARTITION", "START OFFSET", "PRODUCER", "EPOCH", "IDLE FOR", "TRANSACTIONAL ID"],
            [
                (
                    f"{h.transaction.topic}:{h.transaction.partition}",
                    str(h.transaction.start_offset),
                    str(h.transaction.producer_id),
                    str(h.transaction.producer_epoch),
                    duration_text(h.idle_ms),
                    short(h.transactional_id or NOTHING),
                )
                for h in hanging
            ],
        )
        note("ottla txn abort --partition PARTITION --start-offset OFFSET aborts a hanging transaction")
        if may_be_hidden:
            note("transactions whose transactional id this user may not describe are listed here too; do not abort them")
    else:
        note("there are no hanging transactions")


def _hanging_document(hanging: HangingTransaction) -> dict[str, Any]:
    transaction = hanging.transaction
    return {
        "topic": transaction.topic,
        "partition": transaction.partition,
        "start_offset": transaction.start_offset,
        "producer_id": transaction.producer_id,
        "producer_epoch": transaction.producer_epoch,
        "coordinator_epoch": transaction.coordinator_epoch,
        "last_timestamp_ms": transaction.last_timestamp_ms,
        "idle_ms": hanging.idle_ms,
        "transactional_id": hanging.transactional_id,
    }
