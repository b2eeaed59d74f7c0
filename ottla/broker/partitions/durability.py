"""Syncs files before writes are acknowledged (``ottla.durability=power``).

With ``process``, as in Kafka, acknowledged data survives a kill of the process, because the data is in the operating system's
cache. With ``power`` acknowledged data survives a power cut: every response, and every effect of a coordinator's record, waits
until the written files are synced. One round of syncs, in a worker thread, serves all waiters (group commit).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from weakref import WeakKeyDictionary

from ottla.broker.loop.env import Env
from ottla.broker.loop.stepping import Stepping
from ottla.protocol.internal_topics import OFFSETS_TOPIC, TRANSACTION_TOPIC
from ottla.storage.filesystem import Damaged, is_shortage, sync_dir, sync_file
from ottla.storage.log import Log
from ottla.storage.segment import Segment

OnDurable = Callable[[bool], None]
"""Called with True after the data was synced; with False if it may be lost, because the directory or a file has failed."""


_RANK = {OFFSETS_TOPIC: 1, TRANSACTION_TOPIC: 2}
"""The order in which a round syncs logs, by topic; 0 for other topics.

A transaction's records and offsets must be synced before its Prepare record.
"""


SHORTAGE_RETRY_MS = 100
"""Delay in ms before repeating a round of syncs that got no file descriptor."""
SPARED_DESCRIPTORS = 8
"""Number of log files that are closed if no descriptor is left for a round of syncs, which needs one descriptor at a time."""


class _Round:
    """One round of syncs. ``paths`` are the files, each with its rank (`_RANK`); ``directories`` have new files and are synced too.

    ``waiters`` are called at the end of the round.
    """

    __slots__ = ("damaged", "directories", "paths", "waiters")

    def __init__(self, paths: dict[str, int], directories: set[str], waiters: list[OnDurable]) -> None:
        self.paths = paths
        self.directories = directories
        self.waiters = waiters
        self.damaged: dict[str, Damaged] = {}


class GroupCommit:
    """Syncs the files that partitions have written. ``on_failure`` is called once, after a failed sync.

    ``on_refused`` is called with the path of a file that could not be opened for its sync, which does not mean that the disk has
    failed. Damaged files are skipped. If no descriptor is left for a round, it is repeated while its waiters wait.
    """

    def __init__(
        self,
        env: Env,
        stepping: Stepping,
        on_failure: Callable[[BaseException], None],
        on_refused: Callable[[str, OSError], None],
    ) -> None:
        self._env = env
        self._stepping = stepping
        self._on_failure = on_failure
        self._on_refused = on_refused
        # The files to sync, with their order (`_RANK`), and the directories in which new files were created.
        self._dirty: dict[str, int] = {}
        self._new_directories: set[str] = set()
        # By log, the newest segment file whose directory entry is synced, or will be synced in the next round.
        self._newest: WeakKeyDictionary[Log, str] = WeakKeyDictionary()
        self._waiting: list[OnDurable] = []
        self._round: _Round | None = None
        self._is_scheduled = False
        self._is_stopped = False
        self.has_failed = False
        self.rounds = 0
        self.lossy_rounds = 0
        """Number of rounds that did not sync all earlier writes."""

    @property
    def is_pending(self) -> bool:
        """Whether some written data is not synced yet."""
        return bool(self._dirty) or self._round is not None

    def wrote(self, log: Log, segment: Segment | None = None) -> None:
        """Record that a segment of a log, by default the active segment, has grown."""
        path = (segment or log.active).log.path
        if path not in self._dirty and not self.has_failed:
            self._dirty[path] = _RANK.get(log.topic, 0)
            if self._newest.get(log) != path:
                self._newest[log] = path
                self._new_directories.add(log.directory)

    def wrote_file(self, path: str, directory: str) -> None:
        """Record that a file was replaced as a whole, and must be synced."""
        if self.has_failed:
            return
        self._dirty[path] = 0
        self._new_directories.add(directory)

    def is_synced(self, log: Log) -> bool:
        """Whether the active segment of a log is completely synced."""
        path = log.active.log.path
        return path not in self._dirty and (self._round is None or path not in self._round.paths)

    def stop(self) -> None:
        """Begin no further round and call no waiter, because the directory will be closed, after which another broker may use it.

        A running round continues, because it only syncs files.
        """
        self._is_stopped = True
        self._waiting.clear()

    def then(self, waiter: OnDurable) -> None:
        """Call ``waiter`` after all data written so far is synced; immediately if it is synced already."""
        if self._is_stopped:
            return
        if self.has_failed:
            waiter(False)
        elif self._dirty:
            self._waiting.append(waiter)
            self._schedule()
        elif self._round is not None:
            self._round.waiters.append(waiter)
        else:
            waiter(True)

    def _schedule(self) -> None:
        if not self._is_scheduled and self._round is None:
            self._is_scheduled = True
            # Begin the round in the next iteration of the event loop, so that it includes further writes of this iteration.
            self._env.call_soon(self._begin)

    def _begin(self) -> None:
        self._is_scheduled = False
        if self._round is not None or not self._dirty or self._is_stopped:
            return
        this = self._round = _Round(self._dirty, self._new_directories, self._waiting)
        self._dirty, self._new_directories, self._waiting = {}, set(), []
        self.rounds += 1
        self._env.run_aside(lambda: self._sync(this), self._synced)

    def _sync(self, this: _Round) -> None:
        """Sync the files of a round, in a worker thread.

        A file that no longer exists was deleted or compacted; compaction syncs the new file itself.
        """
        fs = self._env.fs
        for directory in sorted(this.directories):
            with suppress(FileNotFoundError):
                try:
                    sync_dir(fs, directory)
                except Damaged as error:
                    this.damaged[directory] = error
        for path in sorted(this.paths, key=lambda p: this.paths[p]):
            with suppress(FileNotFoundError):
                try:
                    sync_file(fs, path)
                except Damaged as error:
                    this.damaged[path] = error

    def _synced(self, error: BaseException | None) -> None:
        this, self._round = self._round, None
        assert this is not None
        if self._is_stopped:
            return
        if isinstance(error, OSError) and is_shortage(error):
            self._try_again(this, error)
            return
        if error is not None or this.damaged:
            self.lossy_rounds += 1
        if error is not None:
            self._failed(error, this)
        for path, damage in this.damaged.items():
            self._on_refused(path, damage)
        for waiter in this.waiters:
            self._stepping.guarded(waiter, error is None and not this.damaged)
        if self._waiting and not self.has_failed:
            self._schedule()

    def _try_again(self, this: _Round, error: OSError) -> None:
        """Repeat a round for which no descriptor was left: sync all its files again, together with the files written since."""
        self._dirty = this.paths | self._dirty
        self._new_directories |= this.directories
        self._waiting = this.waiters + self._waiting
        self._on_refused(error.filename or "", error)
        self._env.fs.spare_descriptors(SPARED_DESCRIPTORS)
        self._is_scheduled = True
        self._env.call_later(SHORTAGE_RETRY_MS, self._begin)

    def _failed(self, error: BaseException, this: _Round) -> None:
        """After a failed sync take logs with unsynced writes offline: clients must not read records that may be missing after a
        restart."""
        self.has_failed = True
        unknown = this.paths | self._dirty
        self._dirty.clear()
        self._on_failure(error)
        for path in unknown:
            self._on_refused(path, Damaged(path, "a sync has failed, so it is unknown which part of this file is on the disk"))
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            self._stepping.guarded(waiter, False)
