"""The file (``--ready-file``) that exists while a broker answers requests, with its addresses."""

from __future__ import annotations

import fcntl
import stat
from pathlib import Path
from typing import IO, Any

from ottla.broker.config.definitions import ConfigError

_BEGINNING = b'{"event": "ready"'


def _lock(file: IO[Any], kind: int) -> None:
    """Lock a file. Raises BlockingIOError if another process holds the lock. Does nothing on file systems without locks."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        return


class ReadyFile:
    """Writes and removes the ready file, but never replaces a file that no broker has written. With path None there is no file.

    A broker locks its file while it runs, so that a broker with another data directory does not replace the file.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._written: IO[str] | None = None

    def check(self) -> None:
        """Raise `ConfigError` if the path has a file that no broker has written, or cannot be written."""
        reason = self._why_not()
        if reason:
            raise ConfigError(f"--ready-file {self.path}: {reason}")

    def _why_not(self) -> str:
        if self.path is None:
            return ""
        try:
            status = self.path.lstat()
        except FileNotFoundError:
            return "" if self.path.parent.is_dir() else f"{self.path.parent} is not a directory"
        except OSError as error:
            return error.strerror or str(error)
        if not stat.S_ISREG(status.st_mode):
            return "it is not a regular file; give another path"
        try:
            with self.path.open("rb") as file:
                beginning = file.read(len(_BEGINNING))
                _lock(file, fcntl.LOCK_SH)
        except BlockingIOError:
            return "another running broker uses it; give another path"
        except OSError as error:
            return error.strerror or str(error)
        return "" if beginning in (b"", _BEGINNING) else "it was not written by a broker; give another path"

    def write(self, line: str, *, is_secret: bool = False) -> None:
        """Write the file. With ``is_secret`` only this user can read it. Raises OSError."""
        if self.path is not None:
            # Write a temporary file and rename it, so that a program that waits for the file never reads half of it.
            half = self.path.with_name(f"{self.path.name}.tmp")
            half.unlink(missing_ok=True)
            half.touch(mode=0o600 if is_secret else 0o666, exist_ok=False)
            self._written = half.open("w")
            _lock(self._written, fcntl.LOCK_EX)
            self._written.write(line)
            self._written.flush()
            half.replace(self.path)

    def remove(self) -> None:
        """Remove the file if a broker has written it. A missing file is no error. Raises OSError."""
        if self._written is not None:
            self._written.close()
            self._written = None
        if self.path is not None and not self._why_not():
            self.path.unlink(missing_ok=True)
