"""Files and directories that were renamed out of the way, and are removed once `file.delete.delay.ms` is over."""

from __future__ import annotations

from ottla.storage.filesystem import Filesystem, described
from ottla.storage.steps import Steps


class Trash:
    """What one log directory is to remove, and when. It is not written down: a start removes what it finds by its names."""

    __slots__ = ("_due", "_fs")

    def __init__(self, fs: Filesystem) -> None:
        self._fs = fs
        # When it is due, its path, and whether that is a directory's.
        self._due: list[tuple[int, str, bool]] = []

    def add_files(self, paths: list[str], due_ms: int) -> None:
        self._due += [(due_ms, path, False) for path in paths]

    def add_directory(self, path: str, due_ms: int) -> None:
        self._due.append((due_ms, path, True))

    def empty(self, now_ms: int) -> Steps[list[str]]:
        """Remove what is due, aside: a large file takes its time.

        A line for each that could not be removed: it waits for the next start.
        """
        due = [(path, is_dir) for due_ms, path, is_dir in self._due if due_ms <= now_ms]
        left: list[str] = []
        if not due:
            return left
        self._due = [entry for entry in self._due if entry[0] > now_ms]

        def remove() -> None:
            for path, is_dir in due:
                try:
                    if is_dir:
                        self._fs.remove_dir(path)
                    else:
                        self._fs.unlink(path)
                except OSError as error:
                    left.append(f"{path}: {described(error)}")

        yield remove
        return left
