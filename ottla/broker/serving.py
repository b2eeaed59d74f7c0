"""The present broker of a process, and its replacement by a new broker: tests get an empty broker without starting a process.

A new broker takes over the listeners of the old one, so that clients find it at the same address and only lose their connections.
The event loop runs nothing else during a replacement.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable

from ottla.broker.broker import BrokerServer
from ottla.broker.env import Env
from ottla.broker.inherited import Inherited
from ottla.broker.logs import LOG_LEVELS
from ottla.operations.snapshots import check_snapshot, copy_directory, wipe
from ottla.storage.identity import DirectoryError


class Serving:
    """Owns the present broker. All methods must be called on its event loop."""

    def __init__(self, env: Env, new_broker: Callable[[Inherited | None], BrokerServer]) -> None:
        """``new_broker`` makes the first broker from None, and each later one from the parts of the broker that it replaces."""
        self._env = env
        self._new_broker = new_broker
        self.stop_wanted = asyncio.Event()
        """Set when the process must end."""
        self.failure: Exception | None = None
        """The error with which a replacement has failed. The process then has no broker and must end."""
        self.given_up: DirectoryError | None = None
        """Why the broker cannot go on. The process then must stop it, and end with this error."""
        self.broker = new_broker(None)
        self.broker.on_given_up = self._give_up

    def _give_up(self, error: DirectoryError) -> None:
        self.given_up = error
        self.stop_wanted.set()

    @property
    def directory(self) -> str:
        """The absolute path of the data directory."""
        return self.broker.directory.absolute_path

    async def start(self) -> None:
        """Start the first broker. Raises the errors of `BrokerServer.start`."""
        await self.broker.start()

    async def stop(self) -> None:
        if self.failure is None:
            await self.broker.stop()

    async def reset(self) -> None:
        """Delete all topics, groups, transactions and settings, as in a new directory. The cluster keeps its id.

        Producer ids are not used again, because a producer of a test that has ended may still be running.
        """
        self._check_alone()
        await self._replace(lambda: wipe(self._env.fs, self.directory), is_written=False)

    async def snapshot(self, target: str) -> None:
        """Copy all data into the directory ``target``, which must not exist.

        Raises `DirectoryError`, and OSError where the disk refuses. In both cases ``target`` does not exist afterwards.
        """
        self._check_alone()
        fs = self._env.fs
        if fs.is_dir(target) is not None:
            raise DirectoryError(f"{target} exists; give a path at which nothing is")
        fs.make_dir(target)
        refused: list[OSError] = []

        def copy() -> None:
            try:
                copy_directory(fs, self.directory, target)
            except OSError as error:
                refused.append(error)

        await self._replace(copy, is_written=True)
        if refused:
            fs.remove_dir(target)
            raise refused[0]

    async def restore(self, source: str) -> None:
        """Replace all data by a snapshot. Raises `DirectoryError` with nothing changed where ``source`` is not a snapshot."""
        self._check_alone()
        check_snapshot(self._env.fs, source)

        def exchange() -> None:
            wipe(self._env.fs, self.directory)
            copy_directory(self._env.fs, source, self.directory)

        await self._replace(exchange, is_written=False)

    def _check_alone(self) -> None:
        """Raises `DirectoryError` for a broker whose controller is elsewhere: its data is a part of the cluster's."""
        if self.broker.settings.is_member:
            raise DirectoryError("the broker is one of a cluster, and its data cannot be replaced or copied by itself")

    async def _replace(self, change: Callable[[], None], *, is_written: bool) -> None:
        """Stop the broker, ``change`` its directory, and start a new broker on it. An exception ends the process."""
        inherited = self.broker.hand_over(is_written=is_written)
        try:
            change()
            LOG_LEVELS.begin_anew()
            self.broker = self._new_broker(inherited)
            await self.broker.start()
        except Exception as error:
            self.failure = error
            inherited.addresses.close()
            self.stop_wanted.set()
            raise
        self._env.call_soon(_collect_garbage)


def _collect_garbage() -> None:
    """Free the replaced broker. Its parts refer to each other, and the garbage collector seldom runs (`broker.running`)."""
    gc.collect()
