"""The stray directories of this broker, as health, ``ottla cluster``, the console, the control API and the metrics show them."""

from __future__ import annotations

from ottla.broker.loop.stepping import Stepping
from ottla.coordinator.metadata.cluster import ClusterState
from ottla.operations.stray_reports import STRAYS_NAMED, StraySummary, summary
from ottla.storage.log_dir import LogDirectory


class Strays:
    """Measures the size of stray directories in steps: of existing directories when the broker starts, of new directories later."""

    __slots__ = ("_directory", "_state", "_stepping")

    def __init__(self, stepping: Stepping, directory: LogDirectory, state: ClusterState) -> None:
        self._stepping = stepping
        self._directory = directory
        self._state = state

    def begin(self) -> None:
        """Measure the existing stray directories, and from now on each new directory."""
        self._directory.strays.watch(self._measure)
        if not self._directory.strays.is_measured:
            self._measure()

    def _measure(self) -> None:
        self._stepping.run(self._directory.strays.measure())

    def summary(self) -> StraySummary:
        """The number of stray directories, and the first `STRAYS_NAMED` of them, each with a way to restore its data."""
        strays = self._directory.strays
        named = strays.first(STRAYS_NAMED)
        return summary(named, len(strays), strays.size_bytes, self._state, self._directory.absolute_path)
