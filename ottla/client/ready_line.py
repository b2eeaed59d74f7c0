"""Reads the file that ``ottla serve --ready-file`` writes, for programs that look for that broker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class NotReady(Exception):
    """A broker does not run or has failed. The text is one line for a person."""


def read_ready_file(path: Path) -> dict[str, Any]:
    """Decode the file, which has the line that the broker also prints. Raises `NotReady`."""
    try:
        said = json.loads(path.read_text())
    except FileNotFoundError:
        raise NotReady(f"{path} does not exist: no broker is ready") from None
    except OSError as error:
        raise NotReady(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise not_a_ready_file(path) from None
    if not isinstance(said, dict):
        raise not_a_ready_file(path)
    return said


def not_a_ready_file(path: Path) -> NotReady:
    return NotReady(f"{path} is not a ready file of ottla serve")
