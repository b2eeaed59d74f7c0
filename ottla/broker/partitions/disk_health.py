"""Tracks whether the log directory accepts writes, for `ottla health`, the metrics and the log.

A failed write (no space, a quota, a file-size limit, an I/O error) has changed nothing, and may be retried. A failed sync is final,
because it is then unknown which data is synced.
"""

from __future__ import annotations

import errno
from contextlib import suppress

import structlog

from ottla.broker.loop.env import Env, Timer
from ottla.broker.loop.repeated_errors import RepeatedErrors
from ottla.storage.identity import NOT_OURS
from ottla.storage.log_dir import LogDirectory

PROBE_FILE = ".probe"
PROBE_INTERVAL_MS = 1_000
PROBE_MIN_BYTES = 4_096
PROBE_MAX_BYTES = 1 << 20
MAX_UNWRITTEN_LOGGED = 20
"""Maximum number of files that are logged one by one if the stopping broker cannot write them."""
QUIET_MS = 60_000
"""After this time in ms without a failed write, a successful test write shows that writes succeed again, whatever the cause was."""
_FOR_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE}
"""Errors for lack of space or descriptors: a successful test write shows that these errors have ended."""

log = structlog.get_logger("disk")


class DiskHealth:
    """The state of one log directory. Logs the first failed write and the end of the failures.

    The failures end when all affected partitions have written again, or after a test write of the largest failed size.
    """

    def __init__(self, env: Env, directory: str) -> None:
        self._env = env
        self.errors = RepeatedErrors(env, log)
        """Logs errors of single files, without a line for each request that causes the same error."""
        self._directory = directory
        # The partitions and files with a failed write, in order of the failures.
        self._refused: dict[str, None] = {}
        self._since_ms = 0.0
        self._last_ms = 0.0
        self._largest_bytes = 0
        self._for_space = True
        self._refusals = 0
        self._timer: Timer | None = None
        self.has_failed = False
        self.refused_writes = 0
        """The number of failed writes since the broker's start."""

    @property
    def is_refusing(self) -> bool:
        return bool(self._refused)

    @property
    def is_sound(self) -> bool:
        return not self._refused and not self.has_failed

    def refused(self, what: str, error: OSError, size_bytes: int = PROBE_MIN_BYTES) -> None:
        """Record a failed write of ``size_bytes``. ``what`` is the partition or the file."""
        now_ms = self._env.monotonic_ms()
        self.refused_writes += 1
        self._last_ms = now_ms
        self._largest_bytes = min(max(self._largest_bytes, size_bytes), PROBE_MAX_BYTES)
        if not self._refused:
            self._since_ms, self._refusals, self._for_space = now_ms, 0, True
            log.error(
                "disk_writes_failed",
                directory=self._directory,
                what=what,
                reason=error.strerror or str(error),
                hint="producers get KAFKA_STORAGE_ERROR; writes resume without a restart when the disk accepts them again",
            )
            self._probe_later()
        self._refusals += 1
        self._for_space = self._for_space and error.errno in _FOR_SPACE
        self._refused[what] = None

    def accepted(self, what: str) -> None:
        """Record a successful write."""
        if self._refused:
            self._refused.pop(what, None)
            if not self._refused:
                self._end_refusals()

    def failed(self, error: BaseException) -> None:
        """Record a failed sync. Only a restart of the broker ends this state."""
        self._give_up("sync_failed", str(error), "writes are disabled; repair or replace the disk, then restart the broker")

    def lost(self, reason: str) -> None:
        """Record that the directory was moved or removed. Only a restart of the broker ends this state."""
        self._give_up("directory_lost", reason, "writes are disabled; restore the directory, then restart the broker")

    def _give_up(self, event: str, reason: str, hint: str) -> None:
        if not self.has_failed:
            log.error(event, directory=self._directory, reason=reason, hint=hint)
        self.has_failed = True

    def _end_refusals(self) -> None:
        log.info(
            "disk_writes_resumed",
            directory=self._directory,
            refused_writes=self._refusals,
            after_ms=round(self._env.monotonic_ms() - self._since_ms),
        )
        self._refused.clear()
        self._largest_bytes = 0
        self.close()

    def close(self) -> None:
        """Stop the test writes, because writes succeed again or the broker stops."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _probe_later(self) -> None:
        self._timer = self._env.call_later(PROBE_INTERVAL_MS, self._probe)

    def _probe(self) -> None:
        if not self._refused:
            return
        is_quiet = self._env.monotonic_ms() - self._last_ms >= QUIET_MS
        if (self._for_space or is_quiet) and self._has_room():
            self._end_refusals()
        else:
            self._probe_later()

    def _has_room(self) -> bool:
        path = f"{self._directory}/{PROBE_FILE}"
        try:
            self._env.fs.write_file(path, bytes(max(self._largest_bytes, PROBE_MIN_BYTES)))
        except OSError:
            return False
        finally:
            with suppress(OSError):
                self._env.fs.unlink(path)
        return True


class DiskStop:
    """Stops the writes of a broker or of a controller, until its next start."""

    __slots__ = ("_directory", "_disk")

    def __init__(self, directory: LogDirectory, disk: DiskHealth) -> None:
        self._directory = directory
        self._disk = disk

    def sync_failed(self, error: BaseException) -> None:
        """Refuse writes after a failed sync. The kernel may have dropped data even if a later sync succeeds (fsyncgate)."""
        self._disk.failed(error)
        self._refuse_writes()

    def check_directory(self) -> None:
        """Refuse writes after the lock file was removed: they might be lost, or overwrite another broker's data."""
        if not self._disk.has_failed and not self._directory.is_ours():
            self._disk.lost(NOT_OURS)
            self._refuse_writes()

    def _refuse_writes(self) -> None:
        for log in self._directory.logs.values():
            log.is_failed = True


def log_unwritten(unwritten: list[str]) -> None:
    """Log the files that the stopping broker could not write: `MAX_UNWRITTEN_LOGGED` one by one, then the number of the rest."""
    for line in unwritten[:MAX_UNWRITTEN_LOGGED]:
        log.error("file_not_written", reason=line)
    if len(unwritten) > MAX_UNWRITTEN_LOGGED:
        log.error("more_files_not_written", count=len(unwritten))
