"""When what was written may be told: at once, or when the disk has it (``ottla.durability``).

``process`` is Kafka's own promise: what was acknowledged survives a kill, for the operating system has it. With ``power``
it survives a power cut: every answer, and every effect of a coordinator's record, waits until the files behind it are
synced. One round of syncs serves all that wait (group commit); it runs beside the event loop.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from weakref import WeakKeyDictionary

from ottla.broker.env import Env
from ottla.broker.stepping import Stepping
from ottla.protocol.internal_topics import OFFSETS_TOPIC, TRANSACTION_TOPIC
from ottla.storage.filesystem import Damaged, is_shortage, sync_dir, sync_file
from ottla.storage.log import Log

OnDurable = Callable[[bool], None]
"""Takes whether the disk has it. False: perhaps not, for the log directory has failed, or a file of the same round is damaged."""


_RANK = {OFFSETS_TOPIC: 1, TRANSACTION_TOPIC: 2}
"""A decision is synced after the data it decides on: a Prepare record on disk means that its records are there too."""


SHORTAGE_RETRY_MS = 100
"""How long after a round that found no descriptor the next one begins."""
SPARED_DESCRIPTORS = 8
"""Log files that such a round closes for the next one, which needs one descriptor at a time."""


class _Round:
    """What is synced together: files by rank, the directories of new ones, and who waits for them."""

    __slots__ = ("damaged", "directories", "paths", "waiters")

    def __init__(self, paths: dict[str, int], directories: set[str], waiters: list[OnDurable]) -> None:
        self.paths = paths
        self.directories = directories
        self.waiters = waiters
        self.damaged: dict[str, Damaged] = {}


class GroupCommit:
    """Syncs what partitions have written. ``on_failure`` is called once, when a sync has failed.

    ``on_refused`` hears of what could not be opened to be synced, which says nothing of the disk. A file that is not the one
    that was written is left out; the others are synced all the same. Where no descriptor was left the round comes again,
    and all that wait for it go on waiting.
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
        # path -> rank; directories, where files are new, come with their files.
        self._dirty: dict[str, int] = {}
        self._new_directories: set[str] = set()
        # Each log's newest segment that was written to: the file's entry in its directory is on the disk, or is to be.
        self._newest: WeakKeyDictionary[Log, str] = WeakKeyDictionary()
        self._waiting: list[OnDurable] = []
        self._round: _Round | None = None
        self._is_scheduled = False
        self._is_stopped = False
        self.has_failed = False
        self.rounds = 0

    @property
    def is_pending(self) -> bool:
        """Whether anything that was written is not on disk yet."""
        return bool(self._dirty) or self._round is not None

    def wrote(self, log: Log) -> None:
        """A log has grown."""
        path = log.active.log.path
        if path not in self._dirty:
            self._dirty[path] = _RANK.get(log.topic, 0)
            if self._newest.get(log) != path:
                self._newest[log] = path
                self._new_directories.add(log.directory)

    def wrote_file(self, path: str, directory: str) -> None:
        """A small file was replaced as a whole."""
        self._dirty[path] = 0
        self._new_directories.add(directory)

    def stop(self) -> None:
        """Begin no further round, and call back nobody: the directory is about to be closed, and may be another broker's then.

        A round that is under way syncs files and changes nothing.
        """
        self._is_stopped = True
        self._waiting.clear()

    def then(self, waiter: OnDurable) -> None:
        """Call back when all that is written by now is on disk: at once where it is."""
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
            # Whatever else this turn of the loop writes goes with the same round.
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
        """Runs beside the loop. What is not there any more was deleted, or compacted, which syncs what it renames."""
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
        if error is not None:
            self._failed(error, this)
        for path, damage in this.damaged.items():
            self._on_refused(path, damage)
        for waiter in this.waiters:
            self._stepping.guarded(waiter, error is None and not this.damaged)
        if self._waiting and not self.has_failed:
            self._schedule()

    def _try_again(self, this: _Round, error: OSError) -> None:
        """Some of the round may be on disk; all of it is synced again, together with what was written since."""
        self._dirty = this.paths | self._dirty
        self._new_directories |= this.directories
        self._waiting = this.waiters + self._waiting
        self._on_refused(error.filename or "", error)
        self._env.fs.spare_descriptors(SPARED_DESCRIPTORS)
        self._is_scheduled = True
        self._env.call_later(SHORTAGE_RETRY_MS, self._begin)

    def _failed(self, error: BaseException, this: _Round) -> None:
        """What was written and is not known to be on the disk is not shown any more: it may be gone after the next start."""
        self.has_failed = True
        unknown = this.paths | self._dirty
        self._dirty.clear()
        self._on_failure(error)
        for path in unknown:
            self._on_refused(path, Damaged(path, "a sync has failed, and nobody knows what of this file the disk has"))
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            self._stepping.guarded(waiter, False)
