"""When what was written may be told: at once, or when the disk has it (``ottla.durability``).

``process`` is Kafka's own promise: what was acknowledged survives a kill, for the operating system has it. With ``power``
it survives a power cut: every answer, and every effect of a coordinator's record, waits until the files behind it are
synced. One round of syncs serves all that wait (group commit); it runs beside the event loop.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from broker.env import Env
from broker.stepping import Stepping
from coordinator.cluster import OFFSETS_TOPIC, TRANSACTION_TOPIC
from storage.filesystem import is_shortage
from storage.log import Log

Waiter = Callable[[bool], None]
"""Takes whether the disk has it. False means that it never will: the log directory has failed."""

_RANK = {OFFSETS_TOPIC: 1, TRANSACTION_TOPIC: 2}
"""A decision is synced after the data it decides on: a Prepare record on disk means that its records are there too."""


SHORTAGE_RETRY_MS = 100
"""How long after a round that found no descriptor the next one begins."""
SPARED_DESCRIPTORS = 8
"""Log files that such a round closes for the next one, which needs one descriptor at a time."""


class GroupCommit:
    """Syncs what partitions have written. ``on_failure`` is called once, when a sync has failed.

    A file that cannot be opened for want of a descriptor was not synced, and nothing is known to be lost: ``on_shortage`` is
    told, and the round comes again while all that wait for it go on waiting.
    """

    def __init__(
        self,
        env: Env,
        stepping: Stepping,
        on_failure: Callable[[BaseException], None],
        on_shortage: Callable[[OSError], None],
    ) -> None:
        self._env = env
        self._stepping = stepping
        self._on_failure = on_failure
        self._on_shortage = on_shortage
        # path -> rank; directories, where files are new, come with their files.
        self._dirty: dict[str, int] = {}
        self._new_directories: set[str] = set()
        self._seen: set[str] = set()
        self._waiting: list[Waiter] = []
        self._in_flight: list[Waiter] = []
        self._is_syncing = False
        self._is_scheduled = False
        self.has_failed = False
        self.rounds = 0

    @property
    def is_pending(self) -> bool:
        """Whether anything that was written is not on disk yet."""
        return bool(self._dirty) or self._is_syncing

    def wrote(self, storage: Log) -> None:
        """A log has grown."""
        path = storage.active.log.path
        if path not in self._dirty:
            self._dirty[path] = _RANK.get(storage.topic, 0)
            if path not in self._seen:
                self._seen.add(path)
                self._new_directories.add(storage.directory)

    def wrote_file(self, path: str, directory: str) -> None:
        """A small file was replaced as a whole."""
        self._dirty[path] = 0
        self._new_directories.add(directory)

    def then(self, waiter: Waiter) -> None:
        """Call back when all that is written by now is on disk: at once where it is."""
        if self.has_failed:
            waiter(False)
        elif self._dirty:
            self._waiting.append(waiter)
            self._schedule()
        elif self._is_syncing:
            self._in_flight.append(waiter)
        else:
            waiter(True)

    def _schedule(self) -> None:
        if not self._is_scheduled and not self._is_syncing:
            self._is_scheduled = True
            # Whatever else this turn of the loop writes goes with the same round.
            self._env.call_soon(self._begin)

    def _begin(self) -> None:
        self._is_scheduled = False
        if self._is_syncing or not self._dirty:
            return
        dirty, self._dirty = self._dirty, {}
        new_directories, self._new_directories = self._new_directories, set()
        paths = sorted(dirty, key=lambda p: dirty[p])
        directories = sorted(new_directories)
        self._in_flight, self._waiting = self._waiting, []
        self._is_syncing = True
        self.rounds += 1
        fs = self._env.fs

        def sync() -> None:
            # What is not there any more was deleted, or compacted, which syncs what it renames.
            for directory in directories:
                with suppress(FileNotFoundError):
                    fs.sync_dir(directory)
            for path in paths:
                with suppress(FileNotFoundError):
                    fs.sync_file(path)

        def synced(error: BaseException | None) -> None:
            if isinstance(error, OSError) and is_shortage(error):
                self._try_again(dirty, new_directories, error)
            else:
                self._synced(error)

        self._env.run_aside(sync, synced)

    def _try_again(self, dirty: dict[str, int], new_directories: set[str], error: OSError) -> None:
        """Some of the round may be on disk; all of it is synced again, together with what was written since."""
        self._is_syncing = False
        self._dirty = dirty | self._dirty
        self._new_directories |= new_directories
        self._waiting = self._in_flight + self._waiting
        self._in_flight = []
        self._on_shortage(error)
        self._env.fs.spare_descriptors(SPARED_DESCRIPTORS)
        self._is_scheduled = True
        self._env.call_later(SHORTAGE_RETRY_MS, self._begin)

    def _synced(self, error: BaseException | None) -> None:
        self._is_syncing = False
        done, self._in_flight = self._in_flight, []
        if error is not None:
            self._failed(error)
        for waiter in done:
            self._stepping.guarded(waiter, error is None)
        if self._waiting and not self.has_failed:
            self._schedule()

    def _failed(self, error: BaseException) -> None:
        self.has_failed = True
        self._dirty.clear()
        self._on_failure(error)
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            self._stepping.guarded(waiter, False)
