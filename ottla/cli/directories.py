"""The commands ``ottla graduate``, ``adopt``, ``audit`` and ``recover``, which convert, check and repair data directories."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Mapping
from os.path import normpath
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

import msgspec

from ottla.client.wording import counted
from ottla.process import print_error

if TYPE_CHECKING:
    from ottla.operations.graduation import GraduationPlan
    from ottla.operations.salvage import DamagedSegment, Hole

BAR_WIDTH = 40
NOT_WHOLE = 2
LEVEL_OF_4_3 = 30
"""The metadata.version of Apache Kafka 4.3 (4.3-IV0)."""


class TopicBytes(NamedTuple):
    """A topic in a report of ``graduate`` or ``adopt``."""

    topic: str
    partitions: int
    size_bytes: int

    @property
    def line(self) -> str:
        return f"  {self.topic:<40} {self.partitions:>6} partitions {self.size_bytes:>16,} bytes"


class Bar:
    """A progress bar on a terminal; for other outputs, one line at the end."""

    def __init__(self, title: str, out: TextIO = sys.stderr) -> None:
        self._title = title
        self._out = out
        self._shown = -1

    def __call__(self, done: int, total: int) -> None:
        percent = 100 * done // total if total else 100
        if percent == self._shown:
            return
        self._shown = percent
        if self._out.isatty():
            filled = BAR_WIDTH * percent // 100
            end = "\n" if percent == 100 else ""
            self._out.write(f"\r{self._title} [{'#' * filled}{'.' * (BAR_WIDTH - filled)}] {percent:3d} %{end}")
            self._out.flush()
        elif percent == 100:
            self._out.write(f"{self._title}: {total:,} bytes\n")


def advancing(bar: Bar, total: int) -> Callable[[int], None]:
    """Return a callable that advances the bar by a number of bytes, at most to ``total``, because files may grow while they are
    read."""
    done = 0

    def on_read(size: int) -> None:
        nonlocal done
        done += size
        bar(min(done, total), total)

    return on_read


def carefully(work: Callable[[], int]) -> int:
    """Run ``work`` and return its exit code. An error that the user can fix becomes one line on stderr and exit code 1."""
    from ottla.protocol.errors import KafkaError
    from ottla.storage.filesystem import described
    from ottla.storage.identity import DirectoryError

    try:
        return work()
    except (DirectoryError, KafkaError) as error:
        print_error(f"ottla: {error}")
    except OSError as error:
        print_error(f"ottla: {described(error)}")
    return 1


def graduate(
    source: str,
    target: str | None,
    *,
    dry_run: bool,
    in_place: bool,
    features: Mapping[str, int] | None = None,
    as_json: bool = False,
    say: Callable[[str], None] = print,
) -> int:
    """Graduate a directory: convert it for Apache Kafka. Returns exit code 0, or prints an error and returns 1.

    ``features`` are levels to set instead of the directory's levels. ``as_json`` prints one JSON document instead of text.
    """
    from ottla.operations.graduation import carry_out, check, hand_over, plan_graduation
    from ottla.operations.guards import locked_for_writing
    from ottla.storage.real_filesystem import RealFilesystem

    # Names of temporary directories are derived from these paths, so the paths must not end with a slash.
    source, target = normpath(source), None if target is None else normpath(target)
    # `reading` opens files read-only, so that they need not be writable.
    fs, reading = RealFilesystem(), RealFilesystem(read_only=True)

    def work() -> int:
        plan = plan_graduation(reading, source, features or {})
        with locked_for_writing(fs, source):
            check(reading, source, plan, advancing(Bar("checking"), plan.size_bytes))
            if not as_json:
                _report(plan, say)
            if in_place:
                aside = hand_over(fs, source, plan)
                done = f"{source} is ready for Apache Kafka; ottla's own metadata was moved to {aside}"
            elif target is not None:
                carry_out(fs, source, target, plan, Bar("copying"))
                done = f"{target} is ready for Apache Kafka"
            else:
                done = "dry run: nothing was written"
        directory = None if dry_run else fs.absolute(target or source)
        if as_json:
            say(document(_graduated(plan, directory)))
            return 0
        say(done)
        if directory is not None:
            _advise(plan, directory, say)
        return 0

    return carefully(work)


def document(said: dict[str, Any]) -> str:
    return json.dumps(said, ensure_ascii=False)


def _handed_over(plan: GraduationPlan) -> list[TopicBytes]:
    """Return the converted topics, without empty internal topics."""
    topics = []
    for topic in sorted(plan.state.topics.values(), key=lambda t: t.name):
        size = sum(s for n, files in plan.directories.items() if n.rpartition("-")[0] == topic.name for _, s in files)
        if size or not topic.is_internal:
            topics.append(TopicBytes(topic.name, topic.partition_count, size))
    return topics


def _graduated(plan: GraduationPlan, directory: str | None) -> dict[str, Any]:
    """Return the JSON report. ``directory`` is the converted directory; None after a dry run."""
    return {
        "cluster_id": plan.identity.cluster_id,
        "node_id": plan.identity.node_id,
        "metadata_version": plan.state.features.get("metadata.version", 0),
        "topics": [topic._asdict() for topic in _handed_over(plan)],
        "size_bytes": plan.size_bytes,
        "notes": plan.notes,
        "directory": directory,
    }


def _report(plan: GraduationPlan, say: Callable[[str], None]) -> None:
    say(f"cluster {plan.identity.cluster_id}, node {plan.identity.node_id}")
    topics = len(plan.state.topics)
    say(
        f"{counted(topics, 'topic')}, {counted(plan.partition_count, 'partition')}, {len(plan.directories):,} with data,"
        f" {counted(plan.size_bytes, 'byte')}"
    )
    for topic in _handed_over(plan):
        say(topic.line)
    for note in plan.notes:
        say(f"  note: {note}")


def _advise(plan: GraduationPlan, directory: str, say: Callable[[str], None]) -> None:
    node_id = plan.identity.node_id
    say("Start Apache Kafka on this directory with a server.properties that has, besides your listeners:")
    say(f"  process.roles=broker,controller\n  node.id={node_id}\n  controller.quorum.voters={node_id}@localhost:9093")
    say(f"  log.dirs={directory}\n  offsets.topic.replication.factor=1\n  transaction.state.log.replication.factor=1")
    say("Do not run kafka-storage format on the directory.")
    level = plan.state.features.get("metadata.version", 0)
    if level > LEVEL_OF_4_3:
        older = f"--feature metadata.version={LEVEL_OF_4_3} converts for 4.3"
        say(f"The directory needs Apache Kafka 4.4 or newer (metadata.version {level}); {older}.")


def adopt(
    source: str,
    target: str,
    topics: list[str],
    new_name: str | None = None,
    *,
    as_json: bool = False,
    say: Callable[[str], None] = print,
) -> int:
    """Adopt topics: import them from Apache Kafka's directory ``source``, which may be a stray directory in ``target``. Returns
    exit code 0, or prints an error and returns 1."""
    from ottla.broker.loop.env import RealEnv
    from ottla.operations.adoption import carry_out, plan_adoption
    from ottla.operations.guards import check_apart, locked_for_reading, locked_for_writing, log_dir_of
    from ottla.operations.stray_sources import is_stray, parent_of
    from ottla.protocol.uuids import uuid_text
    from ottla.storage.filesystem import described
    from ottla.storage.identity import DirectoryError, DirectoryIdentity
    from ottla.storage.real_filesystem import RealFilesystem

    env = RealEnv()

    def work() -> int:
        if not is_stray(source) or Path(parent_of(source)).resolve() != Path(target).resolve():
            check_apart(source, target)
        identity = DirectoryIdentity(uuid_text(env.random_uuid()), 1, uuid_text(env.random_uuid()))
        with locked_for_reading(log_dir_of(source)):
            plan = plan_adoption(RealFilesystem(read_only=True), source, topics, iter(env.random_uuid, None), new_name)
            with locked_for_writing(env.fs, target):
                try:
                    carry_out(env.fs, target, plan, identity, env.now_ms(), Bar("copying"))
                except OSError as error:
                    raise DirectoryError(
                        f"{described(error)}; nothing was adopted into {target}; correct this and run the command again"
                    ) from error
                except KeyboardInterrupt:
                    print_error(f"ottla: interrupted; nothing was adopted into {target}; run the command again")
                    raise
        adopted = [
            TopicBytes(name, topic.partition_count, sum(p.size_bytes for (t, _), p in plan.partitions.items() if t == name))
            for name, topic in sorted(plan.topics.items())
        ]
        if as_json:
            said = {"topics": [topic._asdict() for topic in adopted], "notes": plan.notes, "directory": env.fs.absolute(target)}
            say(document(said))
            return 0
        for topic in adopted:
            say(topic.line)
        for note in plan.notes:
            say(f"  note: {note}")
        say(f"{counted(len(adopted), 'topic')} adopted; serve them with: ottla serve --data-dir {target}")
        return 0

    return carefully(work)


def audit(directory: str, *, as_json: bool = False, say: Callable[[str], None] = print) -> int:
    """Audit a directory. The exit code is 0 if every transaction is complete, 2 if a transaction is incomplete or a file is
    unreadable, and 1 if the directory cannot be read."""
    from ottla.operations.directory_audit import audit_directory, size_bytes
    from ottla.operations.guards import check_plain_logs, locked_for_reading
    from ottla.storage.real_filesystem import RealFilesystem

    fs = RealFilesystem(read_only=True)

    def work() -> int:
        with locked_for_reading(directory):
            check_plain_logs(directory)
            report = audit_directory(fs, directory, advancing(Bar("reading"), size_bytes(fs, directory)))
        code = NOT_WHOLE if report.torn or report.unreadable else 0
        if as_json:
            torn = [msgspec.structs.asdict(transaction) for transaction in report.torn]
            say(document(dataclasses.asdict(report) | {"torn": torn}))
            return code
        for line in (*report.unreadable, *report.torn):
            say(str(line))
        if report.omitted:
            say(f"and {report.omitted:,} more")
        if not report.partitions:
            say(f"{directory} has no partitions yet, so no transaction can be incomplete")
        counts = f"{report.partitions} partitions, {report.decided} decided transactions, {report.open} open"
        say(f"{counts}: {len(report.torn) + report.omitted} incomplete")
        return code

    return carefully(work)


def recover(
    directory: str,
    partitions: set[tuple[str, int]],
    *,
    discards: bool,
    is_only_replica: bool = False,
    as_json: bool = False,
    say: Callable[[str], None] = print,
) -> int:
    """Show the damaged parts of logs, and with ``discards`` replace these parts by empty batches.

    Without ``partitions`` all logs are checked. A log that has other replicas is changed only with ``is_only_replica``. The exit
    code is 0 if no damage remains, 2 if some damage remains, and 1 if the directory cannot be read or written.
    """
    from ottla.operations.directory_audit import size_bytes
    from ottla.operations.guards import check_plain_logs, locked_for_reading, locked_for_writing
    from ottla.operations.replicas import check_only_replicas
    from ottla.operations.salvage import examine, give_up
    from ottla.storage.identity import DirectoryError
    from ottla.storage.real_filesystem import RealFilesystem

    fs = RealFilesystem(read_only=not discards)

    def work() -> int:
        if not Path(directory).is_dir():
            raise DirectoryError(f"{directory} is not a directory; give the data directory of a stopped broker")
        with locked_for_writing(fs, directory) if discards else locked_for_reading(directory):
            check_plain_logs(directory)
            damaged = examine(fs, directory, partitions, advancing(Bar("reading"), size_bytes(fs, directory)))
            if discards and not is_only_replica:
                check_only_replicas(fs, directory, {segment.where for segment in damaged if segment.may_be_changed})
            left = 0
            for segment in damaged:
                is_discarded = discards and segment.may_be_changed
                if is_discarded:
                    give_up(fs, directory, segment)
                left += not is_discarded
                for hole in segment.holes:
                    say(document(_of_hole(segment, hole, is_discarded)) if as_json else _hole_line(segment, hole, is_discarded))
        if not as_json:
            say(_advice(left, len(damaged), discards=discards))
        return NOT_WHOLE if left else 0

    return carefully(work)


def _of_hole(segment: DamagedSegment, hole: Hole, is_discarded: bool) -> dict[str, Any]:
    return {
        "topic": segment.where[0],
        "partition": segment.where[1],
        "segment": segment.path,
        "position": hole.begin,
        "size_bytes": hole.end - hole.begin,
        "first_offset": hole.first_offset,
        "next_offset": hole.next_offset,
        "reason": hole.reason,
        "discarded": is_discarded,
    }


def _hole_line(segment: DamagedSegment, hole: Hole, is_discarded: bool) -> str:
    count = hole.next_offset - hole.first_offset
    offsets = f"offsets {hole.first_offset} to {hole.next_offset - 1} ({count:,})" if count else "no offsets"
    what = f"{hole.end - hole.begin:,} bytes at byte {hole.begin} of {segment.path} are damaged ({hole.reason})"
    outcome = "discarded" if is_discarded else "lost"
    return f"{segment.where[0]}-{segment.where[1]}: {what}; {offsets} {'is' if count == 1 else 'are'} {outcome}"


def _advice(left: int, found: int, *, discards: bool) -> str:
    if not found:
        return "no damage found"
    if not left:
        return f"{found} segments repaired; the next start rebuilds their indexes"
    if discards:
        return "the cluster's metadata cannot be discarded: restore the file, or start with another directory"
    return "nothing was written; restore these files, or run the command again with --discard to discard the damaged parts"
