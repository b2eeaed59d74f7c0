"""Reads from Spark's checkpoint the names of the files that a batch reads (Spark's FileStreamSourceLog).

The offset of a file source only counts the source's batches. So the sink also compares the names of files: after a checkpoint was
restored from a backup, a batch with the same offset may read other files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any, Final

from ottla.spark.errors import PipelineError

HEAD_LINES: Final = 2
"""Number of lines before the offsets in a file with a batch's offsets: a version, and the batch's settings."""
_NUMBER: Final = "logOffset"
_NONE: Final = -1
_MAX_NUMBERS: Final = 1_000
"""Maximum number of a file source's own batches in one batch of the stream. After a crash a stream's batch also contains batches
that the source had planned, but Spark had not recorded."""


def files_digest(text: str, before: str | None, read: Callable[[str], str | None]) -> str:
    """Return a digest of the names of a batch's input files; "" if no source reads files or the checkpoint does not contain the
    names.

    ``text`` has the offsets of the batch, ``before`` those of the previous batch.
    ``read`` returns a file of the checkpoint by its relative path, or None.
    Raises `PipelineError`.
    """
    ends = _numbers(text)
    starts = _numbers(before or "")
    names: list[str] = []
    for source, end in sorted(ends.items()):
        first = max(starts.get(source, _NONE) + 1, end - _MAX_NUMBERS)
        for number in range(first, end + 1):
            names += [f"{source} {entry}" for entry in _entries(source, number, end, read)]
    return hashlib.sha256("\n".join(names).encode()).hexdigest() if names else ""


def _numbers(text: str) -> dict[int, int]:
    """Parse the batch numbers of file sources, by the index of the source."""
    numbers: dict[int, int] = {}
    for source, line in enumerate(text.splitlines()[HEAD_LINES:]):
        offset = _parsed(line) if line.startswith("{") else None
        if isinstance(offset, dict) and isinstance(offset.get(_NUMBER), int):
            numbers[source] = offset[_NUMBER]
    return numbers


def _entries(source: int, number: int, last: int, read: Callable[[str], str | None]) -> list[str]:
    """Return the files that the source has recorded for its batch ``number``. They are in the log file named ``number``, or in a
    compacted log file, which is named after its last batch."""
    for name in (str(number), *(f"{later}.compact" for later in range(number, last + 1))):
        text = read(f"sources/{source}/{name}")
        if text is not None:
            entries = (_parsed(line) for line in text.splitlines()[1:] if line.strip())
            return sorted(
                f"{entry.get('path')} {entry.get('timestamp')}"
                for entry in entries
                if isinstance(entry, dict) and entry.get("batchId") == number
            )
    return []


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        raise PipelineError("the checkpoint's log of a file source cannot be read") from None
