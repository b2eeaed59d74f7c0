"""The current broker of a process, and its replacement by a new broker: tests get an empty broker without starting a process.

A new broker inherits the listeners of the old one, so that clients find it at the same address and only lose their connections. The
event loop runs nothing else during a replacement.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from typing import TYPE_CHECKING

import structlog

from ottla.broker.broker import BrokerServer
from ottla.broker.config.settings import POWER
from ottla.broker.loop.env import Env
from ottla.broker.loop.logs import LOG_LEVELS
from ottla.broker.shared.shared_server import GiveUp, Inherited
from ottla.operations.snapshots import growing_snapshot, restore_snapshot, take_snapshot
from ottla.storage.filesystem import described
from ottla.storage.identity import DirectoryError, write_identity
from ottla.storage.replacement import Replacement

if TYPE_CHECKING:
    from ottla.broker.loop.local_sockets import ClientEnd

log = structlog.get_logger("broker")


def _nothing() -> None:
    """Do nothing."""


class Serving:
    """Owns the current broker. All methods must be called on its event loop."""

    def __init__(self, env: Env, new_broker: Callable[[Inherited | None, GiveUp], BrokerServer]) -> None:
        """``new_broker`` builds a broker from the parts of the replaced broker, or from None for the first broker.

        Its second argument is a function that the broker calls if it cannot continue.
        """
        self._env = env
        self._new_broker = new_broker
        self.stop_wanted = asyncio.Event()
        """Set when the process must end."""
        self.failure: Exception | None = None
        """The error of a failed replacement. The process then has no broker and must end."""
        self.given_up: DirectoryError | None = None
        """The reason why the broker cannot continue. The process must stop the broker, and end with this error."""
        # Locked during a replacement, a snapshot or a stop, so that only one of them runs.
        self._turn = asyncio.Lock()
        self.broker = new_broker(None, self._give_up)

    def _give_up(self, error: DirectoryError) -> None:
        self.given_up = error
        self.stop_wanted.set()

    @property
    def directory(self) -> str:
        """The absolute path of the data directory."""
        return self.broker.directory.absolute_path

    def open_connection(self) -> ClientEnd:
        """Return the client's end of a new connection to the broker inside this process."""
        # Imported here, because only the pages of the console need it.
        from ottla.broker.loop.local_sockets import open_connection

        return open_connection(self.local_connection)

    def local_connection(self) -> asyncio.BufferedProtocol:
        """Return the asyncio protocol that serves a new connection of this process to the current broker."""
        return self.broker.security.local_connection()

    async def start(self) -> None:
        """Start the first broker. Raises the errors of `BrokerServer.start`."""
        await self.broker.start()

    async def stop(self) -> None:
        async with self._turn:
            if self.failure is None:
                await self.broker.stop()

    async def reset(self, on_replaced: Callable[[], Callable[[], None]] = lambda: _nothing) -> None:
        """Delete all topics, groups, transactions and settings, as in a new directory. The cluster keeps its id.

        Producer ids are not used again, because the producer of an earlier test may still be running. See `_replace_data` for
        ``on_replaced`` and the errors.
        """
        await self._replace_data(lambda incoming: None, on_replaced)

    async def restore(self, source: str) -> None:
        """Replace all data by the data of a snapshot. The cluster keeps its id, even if the snapshot has another id.

        Raises `DirectoryError` for a snapshot that is damaged or of another node. See `_replace_data` for other errors.
        """

        def fill(incoming: str) -> None:
            settings = self.broker.settings
            restore_snapshot(self._env.fs, source, incoming, settings.node_id, is_synced=self._is_synced)

        await self._replace_data(fill, lambda: _nothing)

    async def snapshot(self, target: str) -> None:
        """Copy all data into the directory ``target``, which must not exist.

        Raises `DirectoryError`, and OSError if the disk refuses a write. In both cases ``target`` does not exist afterwards.
        """
        async with self._turn:
            self._check_replaceable()
            fs = self._env.fs
            target = fs.absolute(target)
            if fs.is_dir(target) is not None:
                raise DirectoryError(f"{target} already exists; give a path that does not exist")
            # Create the directory now: if this fails, the broker need not be stopped.
            fs.make_dir(growing_snapshot(target))
            inherited = self.broker.hand_over(is_written=True)
            refused: Exception | None = None
            try:
                take_snapshot(fs, self.directory, target, self.broker.settings.node_id, is_synced=self._is_synced)
            except Exception as error:  # After any error a broker must serve again.
                refused = error
            await self._start_or_end(inherited)
        if refused is not None:
            raise refused

    async def _replace_data(self, fill: Callable[[str], None], on_replaced: Callable[[], Callable[[], None]]) -> None:
        """Replace the broker's data by the data that ``fill`` creates in a directory. See `storage.replacement` for crashes.

        ``on_replaced`` is called before a broker starts on the new data; the function that it returns is called if the start fails.
        Raises the errors of ``fill``, OSError if the disk refuses a step, and the errors of `BrokerServer.start` if the broker
        cannot start on the new data. After an error a broker serves the old data, unless `failure` is set.
        """
        async with self._turn:
            self._check_replaceable()
            replacement = Replacement(self._env.fs, self.directory, is_synced=self._is_synced)
            identity = self.broker.identity

            def fill_and_identify(incoming: str) -> None:
                fill(incoming)
                write_identity(self._env.fs, incoming, identity, is_synced=self._is_synced)

            replacement.build(fill_and_identify)
            inherited = self.broker.hand_over(is_written=False)
            undo = _nothing
            try:
                replacement.exchange()
                undo = on_replaced()
                await self._start_next(inherited)
            except Exception:
                undo()
                await self._start_or_end(inherited, replacement.undo)
                raise
            replacement.complete()

    @property
    def _is_synced(self) -> bool:
        """Whether the broker promises that acknowledged data survives a power cut."""
        return self.broker.settings.ottla_durability == POWER

    def _check_replaceable(self) -> None:
        """Raise `DirectoryError` while the broker stops, and for a member of a cluster, whose data cannot be replaced alone."""
        if self.broker.settings.is_member:
            raise DirectoryError("the broker belongs to a cluster, so its data cannot be replaced or copied alone")
        if self.failure is not None or self.broker.lifecycle.is_stopping:
            raise DirectoryError("the broker is stopping")

    async def _start_or_end(self, inherited: Inherited, prepare: Callable[[], None] = _nothing) -> None:
        """Call ``prepare``, then start the next broker. If this fails twice, raise the error, and make the process end."""
        try:
            prepare()
            await self._start_next(inherited)
            return
        except Exception as error:
            # Retry once, because the cause may be temporary, such as a lack of file descriptors.
            log.warning("start_retried", reason=described(error))
        try:
            prepare()
            await self._start_next(inherited)
        except Exception as error:
            self.failure = error
            inherited.addresses.close()
            self._env.fs.unlock(inherited.lock)
            self.stop_wanted.set()
            raise

    async def _start_next(self, inherited: Inherited) -> None:
        broker = self._new_broker(inherited, self._give_up)
        await broker.start()
        self.broker = broker
        LOG_LEVELS.begin_anew()
        self._env.call_soon(_collect_garbage)


def _collect_garbage() -> None:
    """Free the replaced broker. Its parts refer to each other, and the garbage collector seldom runs (`broker.process.running`)."""
    gc.collect()
