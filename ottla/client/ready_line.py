"""Reads the file that ``ottla serve --ready-file`` writes, which contains the broker's addresses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class NotReady(Exception):
    """The broker is not running or has failed."""


def read_ready_file(path: Path) -> dict[str, Any]:
    """Decode a ready file: the JSON line that the broker also prints. Raises `NotReady`."""
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
