"""``ottla copy``: copies a topic to another cluster, each record exactly once."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli.options import BOOTSTRAP, PATH, cluster_at, is_given, json_option, with_command_config, with_timeout
from ottla.cli.output import note, progress, show_json, show_line

if TYPE_CHECKING:
    from ottla.client.records.copying import TopicCopy

HELP = """Copy the committed records of a topic to another cluster or to another topic, each exactly once. Keys, values, headers,
timestamps and partitions stay the same. Stop at the source's last stable offsets unless --follow is given.

Records and progress are committed together at the target. If the copy ends early, even by a kill, the same command continues it.

If the topic does not exist at the target, it is created with the source's partition count and configuration. Progress is stored as
committed offsets of a group. If no copy runs for seven days (offsets.retention.minutes), brokers delete these offsets, and the
command is refused."""


@click.command("copy", help=HELP)
@click.argument("topic", metavar="TOPIC")
@click.option("--from", "source", type=BOOTSTRAP, required=True, metavar="HOST:PORT", help="Cluster to read from.")
@click.option("--to", "target", type=BOOTSTRAP, required=True, metavar="HOST:PORT", help="Cluster to write to.")
@click.option("--as", "target_topic", metavar="NAME", help="Name of the topic at the target (default: TOPIC).")
@click.option("--follow", is_flag=True, help="Copy new records until Ctrl-C or SIGTERM.")
@click.option(
    "--new",
    "is_new",
    is_flag=True,
    help="Start at the beginning, even if records were copied before or the target has records. Omit it to continue a copy.",
)
@click.option("--from-config", type=PATH, metavar="FILE", help="Properties file for --from, in place of --command-config.")
@click.option("--to-config", type=PATH, metavar="FILE", help="Properties file for --to, in place of --command-config.")
@with_command_config
@with_timeout
@json_option
def command(
    topic: str,
    source: str,
    target: str,
    target_topic: str | None,
    follow: bool,
    is_new: bool,
    from_config: Path | None,
    to_config: Path | None,
    timeout_s: float,
    as_json: bool,
) -> None:
    from ottla.client.records.copying import TopicCopy
    from ottla.process import interrupt_on_sigterm

    if from_config is not None and to_config is not None and is_given("command_config"):
        raise click.UsageError("--from-config and --to-config replace --command-config; leave --command-config out")
    with cluster_at(source, timeout_s, from_config) as reading, cluster_at(target, timeout_s, to_config) as writing:
        copy = TopicCopy(reading.brokers, writing.brokers, topic, target_topic or topic, is_new=is_new)
        copy.prepare()
        for gap in copy.skipped:
            note(f"offsets {gap.first:,} to {gap.end - 1:,} of {topic}-{gap.partition} were deleted before they were copied")
        if copy.held and not follow:
            note(f"open transactions hold back {copy.held:,} offsets, which are not copied; ottla txn list shows the transactions")
        left = sum(copy.ends[index] - at for index, at in copy.positions.items())
        ending = suppress(KeyboardInterrupt) if follow else nullcontext()
        with ending, progress(f"copying {topic} (offsets)", None if follow else left) as advance:
            if follow:
                # With --follow, SIGTERM from a process manager ends the copy without an error.
                interrupt_on_sigterm()
            for covered in copy.rounds(follow=follow):
                advance(covered)
    _show(copy, source, target, as_json=as_json)


def _show(copy: TopicCopy, source: str, target: str, *, as_json: bool) -> None:
    total = sum(copy.copied.values())
    if as_json:
        partitions = [
            {"partition": index, "records": count, "next_offset": copy.positions[index]} for index, count in copy.copied.items()
        ]
        skipped = [{"partition": gap.partition, "first": gap.first, "end": gap.end} for gap in copy.skipped]
        show_json(
            {
                "from": source,
                "to": target,
                "topic": copy.topic,
                "as": copy.target_topic,
                "created": copy.is_created,
                "records": total,
                "partitions": partitions,
                "skipped": skipped,
                "held": copy.held,
                "group": copy.group,
            }
        )
        return
    written = ", ".join(f"{count:,} to partition {index}" for index, count in copy.copied.items() if count)
    what = "1 record was" if total == 1 else f"{total:,} records were"
    show_line(f"{what} copied to {copy.target_topic} at {target}" + (f": {written}" if written else ""))
