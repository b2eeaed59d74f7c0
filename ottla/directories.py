"""``ottla graduate``, ``ottla adopt`` and ``ottla audit``: data directories handed over, taken over, and looked through."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TextIO

from ottla import rooms

BAR_WIDTH = 40


class Bar:
    """A progress bar on a terminal, a line at the end elsewhere."""

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


def graduate(source: str, target: str | None, *, dry_run: bool, in_place: bool, say: Callable[[str], None] = print) -> int:
    """The exit code: 0 when done, 1 with a line on stderr when it cannot be."""
    rooms.enter()
    from broker.graduation import GraduationError, carry_out, check, hand_over, plan
    from storage.log_dir import LOCK_FILE, DirectoryError
    from storage.real_filesystem import RealFilesystem

    fs = RealFilesystem()
    lock: object | None = None
    try:
        if LOCK_FILE in fs.list_dir(source):
            lock = fs.lock(f"{source}/{LOCK_FILE}")
            if lock is None:
                raise GraduationError(f"{source} is in use by a broker; stop it first")
        found = plan(fs, source)
        bar, done = Bar("checking"), 0
        for size in check(fs, source, found):
            done += size
            bar(min(done, found.size_bytes), found.size_bytes)
        _report(found, say)
        if dry_run:
            say("dry run: nothing was written")
        elif in_place:
            aside = hand_over(fs, source, found)
            say(f"{source} is Apache Kafka's now; ottla's own metadata lies in {aside}")
        elif target is not None:
            carry_out(fs, source, target, found, Bar("copying"))
            say(f"{target} is ready for Apache Kafka")
        if not dry_run:
            _advise(found.identity.node_id, source if in_place else target or "", say)
    except (GraduationError, DirectoryError) as error:
        print(f"ottla: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"ottla: {error.filename or source}: {error.strerror}", file=sys.stderr)
        return 1
    finally:
        if lock is not None:
            fs.unlock(lock)
    return 0


def _report(found: object, say: Callable[[str], None]) -> None:
    from broker.graduation import Plan

    assert isinstance(found, Plan)
    topics = found.state.topics.values()
    say(f"cluster {found.identity.cluster_id}, node {found.identity.node_id}")
    say(f"{len(topics)} topics, {found.partition_count} partitions, {len(found.directories)} with data, {found.size_bytes:,} bytes")
    for topic in sorted(topics, key=lambda t: t.name):
        size = sum(s for n, files in found.directories.items() if n.rpartition("-")[0] == topic.name for _, s in files)
        if size or not topic.is_internal:
            say(f"  {topic.name:<40} {topic.partition_count:>6} partitions {size:>16,} bytes")
    for note in found.notes:
        say(f"  note: {note}")


def _advise(node_id: int, directory: str, say: Callable[[str], None]) -> None:
    say("Start Apache Kafka on it with a server.properties that has, besides your listeners:")
    say(f"  process.roles=broker,controller\n  node.id={node_id}\n  controller.quorum.voters={node_id}@localhost:9093")
    say(f"  log.dirs={directory}\n  offsets.topic.replication.factor=1\n  transaction.state.log.replication.factor=1")
    say("It needs no kafka-storage format.")


def adopt(source: str, target: str, topics: list[str], *, say: Callable[[str], None] = print) -> int:
    """The exit code: 0 when done, 1 with a line on stderr when it cannot be."""
    rooms.enter()
    from broker.adoption import AdoptionError, carry_out, plan
    from broker.env import RealEnv
    from protocol.errors import KafkaError
    from storage.checkpoints import topic_id_text
    from storage.log_dir import LOCK_FILE, DirectoryError, Identity

    env = RealEnv()
    lock: object | None = None
    try:
        found = plan(env.fs, source, topics, iter(env.random_uuid, None))
        env.fs.make_dir(target)
        lock = env.fs.lock(f"{target}/{LOCK_FILE}")
        if lock is None:
            raise AdoptionError(f"{target} is in use by a broker; stop it first")
        identity = Identity(topic_id_text(env.random_uuid()), 1, topic_id_text(env.random_uuid()))
        carry_out(env.fs, target, found, identity, env.now_ms(), Bar("copying"))
        for name, topic in sorted(found.topics.items()):
            size = sum(p.size_bytes for (t, _), p in found.partitions.items() if t == name)
            say(f"  {name:<40} {topic.partition_count:>6} partitions {size:>16,} bytes")
        for note in found.notes:
            say(f"  note: {note}")
        say(f"{len(found.topics)} topics adopted; serve them with: ottla serve --data-dir {target}")
    except (AdoptionError, DirectoryError, KafkaError) as error:
        print(f"ottla: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"ottla: {error.filename or source}: {error.strerror}", file=sys.stderr)
        return 1
    finally:
        if lock is not None:
            env.fs.unlock(lock)
    return 0


def audit(directory: str, *, say: Callable[[str], None] = print) -> int:
    """The exit code: 0 when every transaction is whole, 1 when one is not, 2 when the directory cannot be read."""
    rooms.enter()
    from broker.audit import audit as look
    from broker.audit import size_bytes
    from storage.real_filesystem import RealFilesystem

    fs = RealFilesystem()
    try:
        total, done, bar = size_bytes(fs, directory), 0, Bar("reading")

        def seen(size: int) -> None:
            nonlocal done
            done += size
            bar(min(done, total), total)

        found = look(fs, directory, seen)
    except OSError as error:
        print(f"ottla: {error.filename or directory}: {error.strerror}", file=sys.stderr)
        return 2
    if not found.partitions:
        print(f"ottla: {directory} holds no partitions", file=sys.stderr)
        return 2
    for finding in found.findings:
        say(finding)
    say(f"{found.partitions} partitions, {found.decided} decided transactions, {found.open} open: {len(found.findings)} not whole")
    return 1 if found.findings else 0
