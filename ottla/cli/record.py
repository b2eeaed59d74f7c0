"""``ottla record``: deletes the oldest records of partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ottla.cli.commands import CommandGroup, Refused
from ottla.cli.options import TOPIC_OR_PARTITION, asks, cluster_at
from ottla.cli.output import note, show_json, show_table
from ottla.cli.positions import PLACE

if TYPE_CHECKING:
    from ottla.client.admin.places import Place

DELETE_HELP = """Delete all records of topics or partitions before a position, which becomes the log start offset of all replicas.
Committed offsets of groups do not change."""


@click.group("record", cls=CommandGroup, help="Delete the oldest records of topics.")
def command() -> None:
    pass


@command.command("delete", help=DELETE_HELP)
@click.argument("topics", metavar="TOPIC[:P]...", nargs=-1, required=True, type=TOPIC_OR_PARTITION)
@click.option(
    "--before",
    type=PLACE,
    required=True,
    metavar="PLACE",
    help="Position of the first record to keep: an offset, a time such as 2026-11-23T17:00Z, or end to delete all records.",
)
@click.option("--dry-run", is_flag=True, help="Show the new log start offsets without deleting.")
@asks
def delete(
    topics: tuple[tuple[str, int | None], ...], before: Place, dry_run: bool, bootstrap: str, timeout_s: float, as_json: bool
) -> None:
    from ottla.client.admin.record_deletion import delete_records, planned_deletions

    changes: dict[tuple[str, int], tuple[int, int]] = {}
    with cluster_at(bootstrap, timeout_s) as cluster:
        targets: dict[str, dict[int, int]] = {}
        for topic in dict(topics):
            indexes = {index for name, index in topics if name == topic}
            wanted = cluster.brokers.partitions(topic) if None in indexes else sorted(i for i in indexes if i is not None)
            planned = planned_deletions(cluster.brokers, topic, wanted, before)
            for one in planned if before.kind == "offset" else ():
                if one.before > one.end:
                    # A broker would refuse an offset above the end with OFFSET_OUT_OF_RANGE, but only after other brokers have
                    # deleted records.
                    raise Refused(
                        f"offset {one.before} is beyond the end of {topic}-{one.partition}, which has offsets {one.start} to"
                        f" {one.end}; nothing was deleted; give an offset up to the end, or --before end to delete all records"
                    )
            # An offset below the log start changes nothing, because the log start never moves back.
            targets[topic] = {one.partition: max(one.before, one.start) for one in planned}
            changes.update({(topic, one.partition): (one.start, targets[topic][one.partition]) for one in planned})
        for topic, new_starts in targets.items() if not dry_run else ():
            for index, start in delete_records(cluster.brokers, topic, new_starts).items():
                changes[topic, index] = changes[topic, index][0], start
    rows = [(topic, index, start, after, after - start) for (topic, index), (start, after) in sorted(changes.items())]
    if as_json:
        names = ("topic", "partition", "start_before", "start_after", "offsets")
        show_json({"dry_run": dry_run, "partitions": [dict(zip(names, row, strict=True)) for row in rows]})
        return
    show_table(["TOPIC", "PARTITION", "START BEFORE", "START AFTER", "OFFSETS"], rows)
    if dry_run:
        note("nothing was deleted: --dry-run was given")
