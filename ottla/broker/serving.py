"""The broker of a process, and how another takes its place: for tests, which want a clean broker without a start.

Another broker gets the listeners of the one before, so that clients find it at the same address, and lose their connections only.
All of a change is one stretch of the event loop.
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
    """Owns the broker of the moment. All methods are called on its event loop."""

    def __init__(self, env: Env, new_broker: Callable[[Inherited | None], BrokerServer]) -> None:
        """``new_broker`` makes the first one, and one for each that takes another's place and has something of it."""
        self._env = env
        self._new_broker = new_broker
        self.stop_wanted = asyncio.Event()
        """Set when the process is to end."""
        self.failure: Exception | None = None
        """Why a broker could not take the place of the one before: the process has none then, and must end."""
        self.broker = new_broker(None)

    @property
    def directory(self) -> str:
        """Where the data lies, as an absolute path."""
        return self.broker.directory.absolute_path

    async def start(self) -> None:
        """Raises as `BrokerServer.start`."""
        await self.broker.start()

    async def stop(self) -> None:
        if self.failure is None:
            await self.broker.stop()

    async def reset(self) -> None:
        """All topics, groups, transactions and settings are gone, as in a new directory. The cluster keeps its id.

        Ids of producers go on: one that outlives its broker, in a test that has ended, must be nobody else.
        """
        await self._replace(lambda: wipe(self._env.fs, self.directory), is_written=False)

    async def snapshot(self, target: str) -> None:
        """Copy all data into ``target``, which must not exist.

        Raises `DirectoryError` and OSError with nothing changed, where the disk is full as well.
        """
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
        """Go on from a snapshot. Raises `DirectoryError` with nothing changed where there is none."""
        check_snapshot(self._env.fs, source)

        def exchange() -> None:
            wipe(self._env.fs, self.directory)
            copy_directory(self._env.fs, source, self.directory)

        await self._replace(exchange, is_written=False)

    async def _replace(self, change: Callable[[], None], *, is_written: bool) -> None:
        """End the broker, ``change`` the directory, and start another on it. What goes wrong ends the process."""
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
    """The parts of the broker that is gone refer to each other, and the collector comes seldom (`broker.main`)."""
    gc.collect()
