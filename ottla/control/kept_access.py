"""Stores the console's port and token in a file of the data directory, so that an open page still works after a restart.

Only the broker's operating system user can read the file. Apache Kafka ignores the file.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final

import msgspec

FILE: Final = "ottla-console.json"
USER_ONLY: Final = 0o600
MAX_BYTES: Final = 1_000
"""Maximum size of the file, in bytes; a larger file is ignored. The broker writes less than 100 bytes."""


class Access(msgspec.Struct, frozen=True, kw_only=True):
    port: Annotated[int, msgspec.Meta(ge=1, le=65_535)]
    token: Annotated[str, msgspec.Meta(min_length=16, max_length=200, pattern="^[A-Za-z0-9_-]+$")]


def read_access(directory: str) -> Access | None:
    """Return port and token of the last start, or None without a valid file: the broker then chooses new values."""
    try:
        file = Path(directory, FILE)
        # Ignore a file that other users could have written or read.
        if file.is_symlink() or file.stat().st_mode & 0o077 or file.stat().st_size > MAX_BYTES:
            return None
        return msgspec.json.decode(file.read_bytes(), type=Access)
    except (OSError, msgspec.DecodeError):
        return None


def write_access(directory: str, access: Access) -> None:
    """Store port and token for the next start. Does nothing if the directory cannot be written."""
    temporary = Path(directory, f"{FILE}.tmp")
    with suppress(OSError):
        temporary.unlink(missing_ok=True)
        temporary.touch(mode=USER_ONLY, exist_ok=False)
        temporary.write_bytes(msgspec.json.encode(access))
        temporary.replace(Path(directory, FILE))
