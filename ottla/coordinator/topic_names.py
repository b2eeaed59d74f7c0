"""Which names a topic may have."""

from __future__ import annotations

import re

from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.internal_topics import METADATA_TOPIC

MAX_TOPIC_NAME = 249

_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic_name(name: str) -> None:
    """Raises INVALID_TOPIC_EXCEPTION (org.apache.kafka.common.internals.Topic.validate)."""
    if not name:
        reason = "the empty string is not allowed"
    elif name in (".", ".."):
        reason = f"'{name}' is not allowed"
    elif len(name) > MAX_TOPIC_NAME:
        reason = f"the length of '{name}' is longer than the max allowed length {MAX_TOPIC_NAME}"
    elif not _LEGAL_NAME.fullmatch(name):
        reason = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    else:
        return
    raise KafkaError(Code.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")


def check_creatable(name: str) -> None:
    """Raises INVALID_REQUEST for the name of the metadata log, which no client may create (ControllerApis)."""
    if name == METADATA_TOPIC:
        raise KafkaError(Code.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
