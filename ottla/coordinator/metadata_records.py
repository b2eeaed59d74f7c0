"""How a record of the cluster's metadata log is framed: frame version, type and version stand before the message."""

from __future__ import annotations

from typing import Any

from ottla.coordinator.result import LogRecord
from ottla.protocol.primitives import uvarint

FRAME_VERSION = 1


def metadata_record(module: Any, message: Any) -> LogRecord:
    """``message`` in the newest version of its schema's ``module``."""
    version = module.MAX_VERSION
    parts: list[Any] = [uvarint(FRAME_VERSION), uvarint(module.RECORD_TYPE), uvarint(version)]
    module.encode(parts.append, message, version)
    return LogRecord(None, b"".join(parts))
