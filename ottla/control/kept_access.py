"""The port and the token of the console in a file of the data directory, so that an open page still works after a restart.

Only the user of the broker can read the file. Apache Kafka ignores it.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final

import msgspec

FILE: Final = "ottla-console.json"
USER_ONLY: Final = 0o600
MAX_BYTES: Final = 1_000
"""Maximum size of a file that is read, in bytes. The broker writes less than a hundred."""


class Access(msgspec.Struct, frozen=True, kw_only=True):
    port: Annotated[int, msgspec.Meta(ge=1, le=65_535)]
    token: Annotated[str, msgspec.Meta(min_length=16, max_length=200, pattern="^[A-Za-z0-9_-]+$")]


def read_access(directory: str) -> Access | None:
    """Return port and token of the last start; None without a readable file, because new ones do little harm."""
    try:
        file = Path(directory, FILE)
        # A file that other users may have written or read is not used.
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
