"""Work that time brings about: rebalances, time-outs, retention, checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import structlog

from broker.env import Timer
from broker.network.listener import IDLE_TICK_MS
from storage.log import Log

if TYPE_CHECKING:
    from broker.broker import Broker

GROUP_TICK_MS = 50
TRASH_CHECK_MS = 1_000
PRODUCERS_AT_ONCE = 5_000
"""About a millisecond's work."""

log = structlog.get_logger("housekeeping")


class Housekeeping:
    """Repeats each task at its interval; a task that fails is logged and comes again."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._timers: dict[str, Timer] = {}
        self._is_syncing = False

    def start(self) -> None:
        broker, settings = self._broker, self._broker.settings
        self._repeat("group_tick", GROUP_TICK_MS, broker.groups.tick)
        self._repeat(
            "transaction_time_outs",
            settings.transaction_abort_timed_out_transaction_cleanup_interval_ms,
            broker.transactions.abort_timed_out,
        )
        self._repeat(
            "transactional_id_expiry",
            settings.transaction_remove_expired_transaction_cleanup_interval_ms,
            broker.transactions.expire_ids,
        )
        self._repeat("offset_expiry", settings.offsets_retention_check_interval_ms, broker.groups.expire_offsets)
        self._repeat("retention", settings.log_retention_check_interval_ms, self.apply_retention)
        self._repeat("producer_expiry", settings.producer_id_expiration_check_interval_ms, self._expire_producers)
        self._repeat("checkpoints", settings.log_flush_offset_checkpoint_interval_ms, self._checkpoint)
        self._repeat("idle_connections", IDLE_TICK_MS, broker.connections.close_idle)
        self._repeat("trash", TRASH_CHECK_MS, lambda: broker.directory.empty_trash(broker.env.now_ms()))

    def stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _repeat(self, name: str, interval_ms: int, task: Callable[[], Iterator[None] | None]) -> None:
        """Run a task again and again; one that gives steps lets others in between two of them.

        The interval begins when a task is done: it never runs twice at once, however long it takes.
        """
        env = self._broker.env

        def again() -> None:
            if not self._broker.is_stopping:
                self._timers[name] = env.call_later(interval_ms, run)

        def failed() -> None:
            log.exception("task_failed", task=name)
            self._broker.unexpected_errors += 1
            again()

        def run() -> None:
            try:
                steps = task()
            except Exception:
                failed()
                return
            if steps is None:
                again()
            else:
                step(steps)

        def step(steps: Iterator[None]) -> None:
            try:
                for _ in steps:
                    if not self._broker.is_stopping:
                        env.call_soon(lambda: step(steps))
                    return
            except Exception:
                failed()
                return
            again()

        self._timers[name] = env.call_later(interval_ms, run)

    def apply_retention(self) -> Iterator[None]:
        return self._broker.directory.apply_retention(self._broker.env.now_ms())

    def _checkpoint(self) -> None:
        """Write the checkpoints; sync settled segments aside, so that a start after a crash need not read them again."""
        directory = self._broker.directory
        directory.write_checkpoints()
        settled = [(storage, *storage.settled()) for storage in directory.logs.values()]
        paths = [path for _, files, _ in settled for path in files]
        if not paths or self._is_syncing:
            return
        self._is_syncing = True

        def sync() -> None:
            for path in paths:
                directory.fs.sync_file(path)

        def synced(error: BaseException | None) -> None:
            self._is_syncing = False
            if error is not None:
                # Retention may have taken a file meanwhile; what is left is tried again at the next checkpoint.
                log.warning("segments_not_synced", error=str(error))
                return
            for storage, files, point in settled:
                if files:
                    storage.recovery_point = max(storage.recovery_point, point)

        self._broker.env.run_aside(sync, synced)

    def _expire_producers(self) -> Iterator[None]:
        broker = self._broker
        return broker.directory.expire_producers(broker.env.now_ms(), broker.settings.producer_id_expiration_ms, PRODUCERS_AT_ONCE)

    def delete_records(self, storage: Log, before_offset: int) -> None:
        """Move a log's start, durably: a restart must not bring deleted records back."""
        now_ms = self._broker.env.now_ms()
        paths = storage.delete_records(before_offset, now_ms)
        self._broker.directory.retire(paths, now_ms + storage.config.file_delete_delay_ms)
        self._broker.directory.write_log_starts()
