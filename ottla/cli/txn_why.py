"""``ottla txn why``: explains which transactions hold back read_committed consumers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.control import cluster_and_control_api, finds_control_api, time_of
from ottla.cli.options import TOPIC_OR_PARTITION, asks
from ottla.cli.output import show_json, show_line

if TYPE_CHECKING:
    from ottla.client.explain.diagnosis import StableOffset


@click.command("why", help="Explain up to which offset read_committed consumers can read a topic, what stops them, and what to do.")
@click.argument("topic", type=TOPIC_OR_PARTITION, metavar="TOPIC[:P]")
@asks
@finds_control_api
def command(
    topic: tuple[str, int | None],
    bootstrap: str,
    timeout_s: float,
    as_json: bool,
    url: str | None,
    token: str | None,
    ready_file: Path | None,
) -> None:
    from ottla.cli.txn_history import holders
    from ottla.client.explain.diagnosis import stable_offsets
    from ottla.client.explain.reasons import why_held

    name, index = topic
    with cluster_and_control_api(bootstrap, timeout_s, url, token, ready_file) as (cluster, control_api):
        partitions = stable_offsets(cluster.brokers, name, None if index is None else [index])
        now_ms = time_of(control_api)
    clients = holders(control_api, partitions)
    if as_json:
        show_json([document(one, now_ms, clients) for one in partitions])
        return
    holding = [one for one in partitions if one.waiting]
    for one in holding if index is None else partitions:
        for line in why_held(one, now_ms, clients):
            show_line(line)
    if index is None and not holding:
        show_line(f"{name} has no open transactions: read_committed consumers can read to the end of each partition")


def document(stable_offset: StableOffset, now_ms: int, clients: Mapping[str, str]) -> dict[str, Any]:
    from ottla.client.durations import elapsed_ms

    holder, transaction = stable_offset.holder, stable_offset.transaction
    return {
        "topic": stable_offset.topic,
        "partition": stable_offset.partition,
        "last_stable_offset": stable_offset.last_stable_offset,
        "high_watermark": stable_offset.high_watermark,
        "producer_id": None if holder is None else holder.producer_id,
        "producer_epoch": None if holder is None else holder.producer_epoch,
        "start_offset": None if holder is None else holder.start_offset,
        "transactional_id": None if transaction is None else transaction.transactional_id,
        "client": None if transaction is None else clients.get(transaction.transactional_id),
        "state": None if transaction is None else transaction.state,
        "open_ms": None if transaction is None or transaction.start_ms is None else elapsed_ms(transaction.start_ms, now_ms),
        "timeout_ms": None if transaction is None else transaction.timeout_ms,
    }
