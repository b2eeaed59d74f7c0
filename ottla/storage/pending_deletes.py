"""Files and directories that were renamed for deletion and are removed after `file.delete.delay.ms`."""

from __future__ import annotations

from ottla.protocol.steps import in_thread
from ottla.storage.filesystem import Filesystem


class Trash:
    """The paths that are to be removed from one log directory, and when.

    The list is kept in memory only. The next start recognises the files and directories by their names and removes them.
    """

    __slots__ = ("_due", "_fs")

    def __init__(self, fs: Filesystem) -> None:
        self._fs = fs
        # For each path: the time in ms from which it may be removed, the path, and whether it is a directory.
        self._due: list[tuple[int, str, bool]] = []

    def add_files(self, paths: list[str], due_ms: int) -> None:
        self._due += [(due_ms, path, False) for path in paths]

    def add_directory(self, path: str, due_ms: int) -> None:
        self._due.append((due_ms, path, True))

    async def empty(self, now_ms: int) -> list[tuple[str, str]]:
        """Remove the paths that are due, in a worker thread, because removing a large file takes long.

        Returns each path that could not be removed, with the reason; the next start retries.
        """
        due = [(path, is_dir) for due_ms, path, is_dir in self._due if due_ms <= now_ms]
        left: list[tuple[str, str]] = []
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
                    left.append((path, error.strerror or str(error)))

        await in_thread(remove)
        return left
