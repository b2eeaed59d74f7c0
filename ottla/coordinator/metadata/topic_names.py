"""Checks topic names."""

from __future__ import annotations

import re

from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.internal_topics import INTERNAL_TOPICS, METADATA_TOPIC

MAX_TOPIC_NAME = 249

_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic_name(name: str) -> None:
    """Raise INVALID_TOPIC_EXCEPTION for an invalid name (org.apache.kafka.common.internals.Topic.validate)."""
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
    """Raise INVALID_REQUEST for the name of the metadata log, which no client may create (ControllerApis)."""
    if name == METADATA_TOPIC:
        raise KafkaError(Code.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")


class TakenNames:
    """The names of existing topics, with which the name of a new topic may collide.

    Names of metrics have '_' in place of '.', so Kafka rejects a second topic whose metrics would have the same names. If the file
    system ignores case, two topics whose names differ only in case would share their files.
    """

    def __init__(self, *, ignores_case: bool) -> None:
        self._ignores_case = ignores_case
        self._by_folded: dict[str, str] = {}

    def take(self, name: str) -> None:
        self._by_folded[self._folded(name)] = name

    def free(self, name: str) -> None:
        folded = self._folded(name)
        if self._by_folded.get(folded) == name:
            del self._by_folded[folded]

    def check(self, name: str) -> None:
        """Raise INVALID_TOPIC_EXCEPTION if the name collides with that of another topic or an internal topic."""
        if name in INTERNAL_TOPICS:
            # Internal topics are always allowed, because the broker needs them.
            return
        folded = self._folded(name)
        taken = {self._folded(own): own for own in INTERNAL_TOPICS}
        if self._ignores_case:
            taken[self._folded(METADATA_TOPIC)] = METADATA_TOPIC
        other = self._by_folded.get(folded) or taken.get(folded)
        if other is not None:
            raise KafkaError(Code.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")

    def _folded(self, name: str) -> str:
        folded = name.replace(".", "_")
        return folded.lower() if self._ignores_case else folded
