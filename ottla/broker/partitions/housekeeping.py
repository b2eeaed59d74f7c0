"""Runs periodic tasks in the background: retention, compaction, checkpoints, and tasks of other parts."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from ottla.broker.config.settings import Settings
from ottla.broker.loop.env import Timer
from ottla.broker.loop.repeated_errors import RepeatedErrors
from ottla.broker.partitions.kernel import Kernel
from ottla.broker.partitions.partitions import Partitions
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.steps import Steps
from ottla.storage.background_sync import settle
from ottla.storage.filesystem import SyncFailed
from ottla.storage.log import Log
from ottla.storage.log_cleaner import Interrupted, filthiest

TRASH_CHECK_MS = 1_000
PRODUCERS_AT_ONCE = 5_000
"""Number of producers that are checked for expiry in one step, in about a millisecond."""

log = structlog.get_logger("housekeeping")


class Housekeeping:
    """Repeats each task at its interval, also after a failure, which is logged."""

    def __init__(self, kernel: Kernel, partitions: Partitions) -> None:
        self._env = kernel.env
        self._stepping = kernel.stepping
        self._lifecycle = kernel.lifecycle
        self._config = kernel.config
        self._directory = kernel.directory
        self._partitions = partitions
        self._disk = kernel.disk
        self._barrier = kernel.barrier
        self._disk_failed = kernel.disk_stop.sync_failed
        self._errors = RepeatedErrors(kernel.env, log)
        self._timers: dict[str, Timer] = {}
        self.uncleanable: set[Log] = set()
        """Logs that the cleaner could not read, and that are not compacted until the next start."""

    def start(self) -> None:
        """Start the tasks on logs. Other parts add their own tasks with `repeat`."""
        self.repeat("retention", lambda s: s.log_retention_check_interval_ms, self.apply_retention, waits_after_start=True)
        self.repeat("compaction", lambda s: s.log_cleaner_backoff_ms, self.compact)
        self.repeat("producer_expiry", lambda s: s.producer_id_expiration_check_interval_ms, self._expire_producers)
        self.repeat(
            "checkpoints",
            lambda s: s.log_flush_offset_checkpoint_interval_ms,
            self._checkpoint,
            waits_after_start=True,
            is_by_clock=False,
        )
        self.repeat("trash", lambda _: TRASH_CHECK_MS, self._empty_trash)

    def stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def repeat(
        self,
        name: str,
        interval_ms: Callable[[Settings], int],
        task: Callable[[], Steps[None] | None],
        *,
        waits_after_start: bool = False,
        is_by_clock: bool = True,
        may_have_secrets: bool = False,
    ) -> None:
        """Run a task repeatedly. A task may return a coroutine, which runs in steps.

        The interval begins at the end of a run, so runs of a task never overlap. The first run begins after an interval or, with
        ``waits_after_start``, after `_initial_delay_ms`. ``is_by_clock`` means that `Env.call_by_clock` measures the interval. A
        test may stop that clock. Tasks that depend on the age of data need this clock; tasks that check files or connections must
        not use it. With ``may_have_secrets`` the texts of the task's exceptions are not logged.
        """
        call_later = self._env.call_by_clock if is_by_clock else self._env.call_later

        def again() -> None:
            if not self._lifecycle.is_stopping:
                self._timers[name] = call_later(interval_ms(self._config.settings), begin)

        def failed(error: Exception) -> None:
            if isinstance(error, OSError):
                # A failed write has changed nothing, and the next run tries again.
                self._disk.refused(self._directory.path, error)
            else:
                self._lifecycle.bug("task_failed", may_have_secrets=may_have_secrets, task=name)
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
                self._stepping.run(steps, lambda _: again(), failed)

        first_ms = interval_ms(self._config.settings)
        if waits_after_start:
            first_ms = self._initial_delay_ms(first_ms)
        self._timers[name] = call_later(first_ms, begin)

    def _initial_delay_ms(self, interval_ms: int) -> int:
        """The delay in ms between the broker's start and the first run of a task on logs (log.initial.task.delay.ms).

        If only the interval is set, and is shorter than Kafka's default delay of 30 s, the interval is also the delay: a user who
        sets a short interval does not want to wait longer.
        """
        delay_ms = self._config.settings.log_initial_task_delay_ms
        return delay_ms if "log.initial.task.delay.ms" in self._config.current.given else min(delay_ms, interval_ms)

    async def apply_retention(self) -> None:
        return await self._directory.apply_retention(self._env.now_ms(), self._partitions.disk_refused)

    async def _empty_trash(self) -> None:
        left = await self._directory.trash.empty(self._env.now_ms())
        for path, reason in left:
            self._errors.failed("file_not_removed", reason, path=path, hint="the next start removes the file")

    async def _expire_producers(self) -> None:
        expiration_ms = self._config.settings.producer_id_expiration_ms
        return await self._directory.expire_producers(self._env.now_ms(), expiration_ms, PRODUCERS_AT_ONCE)

    async def _checkpoint(self) -> None:
        """Write the checkpoints and sync closed segments, so that a start after a crash need not read these segments."""
        directory = self._directory
        await directory.write_checkpoints()
        self._disk.accepted(directory.path)
        try:
            await settle(list(directory.logs.values()), self._partitions.disk_refused)
        except SyncFailed as error:
            self._disk_failed(error)

    async def compact(self) -> None:
        """Compact the logs one after the other, until none needs compaction (LogCleaner.CleanerThread)."""
        settings = self._config.settings
        buffer_bytes = int(settings.log_cleaner_dedupe_buffer_size * settings.log_cleaner_io_buffer_load_factor)
        while settings.log_cleaner_enable:
            now_ms = self._env.now_ms()
            logs = [one for one in self._directory.logs.values() if one not in self.uncleanable]
            dirty = await filthiest(logs, now_ms)
            if dirty is None:
                return
            try:
                done = await self._directory.clean(dirty, now_ms, buffer_bytes)
            except Interrupted as reason:
                log.info("cleaning_interrupted", reason=str(reason))
            except KafkaError as error:
                log.error("log_not_cleaned", partition=repr(dirty.log), reason=error.message)
                self.uncleanable.add(dirty.log)
            except SyncFailed as error:
                self._disk_failed(error)
                return
            except OSError as error:
                self._partitions.disk_refused(dirty.log, error)
                if not dirty.log.is_offline:
                    return
            else:
                log.info("log_cleaned", partition=repr(dirty.log), bytes_before=done.bytes_before, bytes_after=done.bytes_after)

    def delete_records(self, partition_log: Log, before_offset: int) -> None:
        """Raise a log's start offset durably, because a restart must not bring deleted records back.

        Raises KAFKA_STORAGE_ERROR with nothing changed.
        """
        partition_log.check_writable()
        directory = self._directory
        try:
            path = directory.delete_records(partition_log, before_offset)
        except OSError as error:
            self._disk.refused(directory.path, error)
            raise KafkaError(Code.KAFKA_STORAGE_ERROR, f"{directory.path}: {error.strerror or error}") from error
        self._disk.accepted(directory.path)
        self._barrier.wrote_file(path, directory.path)
