"""The file that holds the ready line while a broker answers requests (``--ready-file``)."""

from __future__ import annotations

import stat
from pathlib import Path

from ottla.broker.config.definitions import ConfigError

_BEGINNING = b'{"event": "ready"'


class ReadyFile:
    """Writes and removes one file, and no file that something else has made. ``None`` stands for no file."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def check(self) -> None:
        """Raises `ConfigError` where another file would be replaced, or none could be written."""
        reason = self._why_not()
        if reason:
            raise ConfigError(f"--ready-file {self._path}: {reason}")

    def _why_not(self) -> str:
        if self._path is None:
            return ""
        try:
            status = self._path.lstat()
        except FileNotFoundError:
            return "" if self._path.parent.is_dir() else f"{self._path.parent} is no directory"
        except OSError as error:
            return error.strerror or str(error)
        if not stat.S_ISREG(status.st_mode):
            return "it is no plain file; give another name"
        try:
            with self._path.open("rb") as file:
                beginning = file.read(len(_BEGINNING))
        except OSError as error:
            return error.strerror or str(error)
        return "" if beginning in (b"", _BEGINNING) else "it is not what a broker has written; give another name"

    def write(self, line: str, *, is_secret: bool = False) -> None:
        """For this user's eyes only where it ``is_secret``. Raises OSError."""
        if self._path is not None:
            # Whoever waits for the file must not read half of it.
            half = self._path.with_name(f"{self._path.name}.tmp")
            half.unlink(missing_ok=True)
            half.touch(mode=0o600 if is_secret else 0o666, exist_ok=False)
            half.write_text(line)
            half.replace(self._path)

    def remove(self) -> None:
        """Raises OSError. A file that is not there, or that a broker has not written, is left as it is."""
        if self._path is not None and not self._why_not():
            self._path.unlink(missing_ok=True)
