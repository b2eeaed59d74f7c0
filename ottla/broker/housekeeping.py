"""Work that time brings about: rebalances, time-outs, retention, checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import structlog

from ottla.broker.config.settings import Settings
from ottla.broker.env import Timer
from ottla.broker.network.listener import IDLE_TICK_MS
from ottla.broker.partitions import disk_refused
from ottla.protocol.errors import Code, KafkaError
from ottla.storage.cleaning import Interrupted, filthiest
from ottla.storage.filesystem import SyncFailed
from ottla.storage.log import Log
from ottla.storage.settling import settle
from ottla.storage.steps import Steps

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

GROUP_TICK_MS = 50
TRASH_CHECK_MS = 1_000
DIRECTORY_CHECK_MS = 1_000
"""How often the broker looks whether the data directory is still where it was."""
DELETED_TOPICS_MS = 5_000
"""How often the offsets of deleted topics are looked for that could not be removed with their topic."""
LEFT_TOLD = 20
"""Deleted files that could not be removed, and that are logged one by one."""
PRODUCERS_AT_ONCE = 5_000
"""About a millisecond's work."""

log = structlog.get_logger("housekeeping")


class Housekeeping:
    """Repeats each task at its interval; a task that fails is logged and comes again."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._timers: dict[str, Timer] = {}
        self.uncleanable: set[Log] = set()
        """Logs that the cleaner could not read: left alone until the next start."""

    def start(self) -> None:
        broker = self._broker
        self._repeat("group_tick", lambda _: GROUP_TICK_MS, broker.groups.tick)
        self._repeat(
            "transaction_time_outs",
            lambda s: s.transaction_abort_timed_out_transaction_cleanup_interval_ms,
            broker.transactions.abort_timed_out,
        )
        self._repeat(
            "transactional_id_expiry",
            lambda s: s.transaction_remove_expired_transaction_cleanup_interval_ms,
            broker.transactions.expire_ids,
        )
        self._repeat("offset_expiry", lambda s: s.offsets_retention_check_interval_ms, broker.groups.expire_offsets)
        self._repeat("deleted_topics", lambda _: DELETED_TOPICS_MS, broker.groups.forget_topics)
        self._repeat("retention", lambda s: s.log_retention_check_interval_ms, self.apply_retention, waits_after_start=True)
        self._repeat("compaction", lambda s: s.log_cleaner_backoff_ms, self.compact)
        self._repeat("producer_expiry", lambda s: s.producer_id_expiration_check_interval_ms, self._expire_producers)
        self._repeat("checkpoints", lambda s: s.log_flush_offset_checkpoint_interval_ms, self._checkpoint, waits_after_start=True)
        self._repeat("idle_connections", lambda _: IDLE_TICK_MS, broker.connections.close_idle)
        self._repeat("directory", lambda _: DIRECTORY_CHECK_MS, broker.check_directory)
        self._repeat("trash", lambda _: TRASH_CHECK_MS, self._empty_trash)

    def stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _repeat(
        self,
        name: str,
        interval_ms: Callable[[Settings], int],
        task: Callable[[], Steps[None] | None],
        *,
        waits_after_start: bool = False,
    ) -> None:
        """Run a task again and again; one that gives steps lets others in between two of them.

        The interval begins when a task is done: it never runs twice at once, however long it takes. With
        ``waits_after_start`` it runs first as `_initial_delay_ms` says, else after an interval.
        """

        def again() -> None:
            if not self._broker.is_stopping:
                self._timers[name] = self._broker.env.call_later(interval_ms(self._broker.settings), begin)

        def failed(error: Exception) -> None:
            if isinstance(error, OSError):
                # The disk refuses: nothing was changed, and the next round tries again.
                self._broker.disk.refused(self._broker.directory.path, error)
            else:
                log.exception("task_failed", task=name)
                self._broker.unexpected_errors += 1
            again()

        def begin() -> None:
            try:
                steps = task()
            except Exception as error:
                failed(error)
                return
            if steps is None:
                again()
            else:
                self._broker.stepping.run(steps, lambda _: again(), failed)

        first_ms = interval_ms(self._broker.settings)
        if waits_after_start:
            first_ms = self._initial_delay_ms(first_ms)
        self._timers[name] = self._broker.env.call_later(first_ms, begin)

    def _initial_delay_ms(self, interval_ms: int) -> int:
        """How long after a start a task of the logs runs first (log.initial.task.delay.ms).

        Who sets a short interval, as tests do, does not mean to wait for Kafka's half minute.
        """
        delay_ms = self._broker.settings.log_initial_task_delay_ms
        return delay_ms if "log.initial.task.delay.ms" in self._broker.config.given else min(delay_ms, interval_ms)

    def apply_retention(self) -> Steps[None]:
        broker = self._broker
        return broker.directory.apply_retention(broker.env.now_ms(), partial(disk_refused, broker.disk))

    def _empty_trash(self) -> Steps[None]:
        left = yield from self._broker.directory.empty_trash(self._broker.env.now_ms())
        for line in left[:LEFT_TOLD]:
            log.warning("not_removed", reason=line, hint="the next start tries again")

    def _expire_producers(self) -> Steps[None]:
        broker = self._broker
        return broker.directory.expire_producers(broker.env.now_ms(), broker.settings.producer_id_expiration_ms, PRODUCERS_AT_ONCE)

    def _checkpoint(self) -> Steps[None]:
        """Write the checkpoints; sync what is settled, so that a start after a crash need not read it again."""
        directory = self._broker.directory
        yield from directory.checkpoint()
        self._broker.disk.accepted(directory.path)
        try:
            yield from settle(list(directory.logs.values()), partial(disk_refused, self._broker.disk))
        except SyncFailed as error:
            self._broker.disk_failed(error)

    def compact(self) -> Steps[None]:
        """Clean one log after the other until none is dirty enough (LogCleaner.CleanerThread)."""
        broker, settings = self._broker, self._broker.settings
        buffer_bytes = int(settings.log_cleaner_dedupe_buffer_size * settings.log_cleaner_io_buffer_load_factor)
        while settings.log_cleaner_enable:
            now_ms = broker.env.now_ms()
            logs = [one for one in broker.directory.logs.values() if one not in self.uncleanable]
            dirty = yield from filthiest(logs, now_ms)
            if dirty is None:
                return
            try:
                done = yield from broker.directory.clean(dirty, now_ms, buffer_bytes)
            except Interrupted as reason:
                log.info("cleaning_interrupted", reason=str(reason))
            except KafkaError as error:
                log.error("log_cannot_be_cleaned", partition=repr(dirty.log), reason=error.message)
                self.uncleanable.add(dirty.log)
            except SyncFailed as error:
                broker.disk_failed(error)
                return
            except OSError as error:
                disk_refused(broker.disk, dirty.log, error)
                if not dirty.log.is_offline:
                    return
            else:
                log.info("log_cleaned", partition=repr(dirty.log), bytes_before=done.bytes_before, bytes_after=done.bytes_after)

    def delete_records(self, storage: Log, before_offset: int) -> None:
        """Move a log's start, durably: a restart must not bring deleted records back. Raises `KafkaError` with nothing changed."""
        storage.check_online()
        directory = self._broker.directory
        try:
            path = directory.delete_records(storage, before_offset)
        except OSError as error:
            self._broker.disk.refused(directory.path, error)
            raise KafkaError(Code.KAFKA_STORAGE_ERROR, f"{directory.path}: {error.strerror or error}") from error
        self._broker.disk.accepted(directory.path)
        self._broker.gate.wrote_file(path, directory.path)
