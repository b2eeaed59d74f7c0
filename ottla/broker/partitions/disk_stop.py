"""Stops all writes to a log directory after a failed sync or the loss of its lock."""

from __future__ import annotations

from ottla.broker.partitions.disk_health import DiskHealth
from ottla.storage.identity import NOT_OURS
from ottla.storage.log_dir import LogDirectory


class DiskStop:
    """Stops the writes of a broker or of a controller, until its next start."""

    __slots__ = ("_directory", "_disk")

    def __init__(self, directory: LogDirectory, disk: DiskHealth) -> None:
        self._directory = directory
        self._disk = disk

    def sync_failed(self, error: BaseException) -> None:
        """Refuse writes after a failed sync, even if a later sync succeeds: the kernel may have dropped data (fsyncgate)."""
        self._disk.failed(error)
        self._refuse_writes()

    def check_directory(self) -> None:
        """Refuse writes after the lock file was removed: they would be lost, or overwrite another broker's data."""
        if not self._disk.has_failed and not self._directory.is_ours():
            self._disk.lost(NOT_OURS)
            self._refuse_writes()

    def _refuse_writes(self) -> None:
        for log in self._directory.logs.values():
            log.is_failed = True
