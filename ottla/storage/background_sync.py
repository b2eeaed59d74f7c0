"""Syncs closed segments and moves recovery points, so that a broker need not read those segments when it starts after a crash."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from ottla.protocol.steps import Pace, in_thread, next_turn
from ottla.storage.filesystem import Filesystem, SyncFailed, sync_file
from ottla.storage.log import Log

_Settled = tuple[Log, list[str], int, int]
"""A log, its files to sync, its recovery point after the sync, and its count of truncations before the sync."""


def _raised(_: Log, error: OSError) -> None:
    raise error


def _sync(fs: Filesystem, files: list[str]) -> None:
    for path in files:
        # Retention may have removed the file since the files to sync were listed.
        with suppress(FileNotFoundError):
            sync_file(fs, path)


def _sync_all(settled: list[_Settled], refused: dict[Log, OSError]) -> None:
    for log, files, _, _ in settled:
        try:
            _sync(log.fs, files)
        except SyncFailed:
            raise
        except OSError as error:
            refused[log] = error


async def settle(logs: list[Log], on_refused: Callable[[Log, OSError], None] = _raised) -> None:
    """Sync the closed segments of ``logs``, and move each recovery point to the end of the closed segments.

    ``on_refused`` is called for a log whose files could not be opened or written. That log's recovery point stays, and the other
    logs are synced nevertheless. Raises `SyncFailed`.
    """
    settled, pace = list[_Settled](), Pace()
    for log in logs:
        if not log.is_failed and not log.is_offline:
            try:
                await log.write_rebuilt()
            except SyncFailed:
                raise
            except OSError as error:
                on_refused(log, error)
            else:
                files, point = log.closed_files_to_sync()
                if files and not log.is_failed and not log.is_offline:
                    settled.append((log, files, point, log.truncations))
        if pace.spend(1):
            await next_turn()
    if not settled:
        return

    refused: dict[Log, OSError] = {}
    await in_thread(lambda: _sync_all(settled, refused))
    for log, _, point, truncations in settled:
        if log in refused:
            if not log.is_deleted:
                on_refused(log, refused[log])
        elif log.truncations == truncations:
            # A log that was truncated since keeps its recovery point: offsets below ``point`` may now belong to other batches,
            # which are not synced.
            log.recovery_point = max(log.recovery_point, point)
