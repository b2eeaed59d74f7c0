"""Parses the topics that ``ottla serve`` creates when it starts: ``--topic``, and ``KAFKA_CREATE_TOPICS`` of other container
images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.arguments import BadArgument
from ottla.broker.config.first_topic import FirstTopic

VARIABLE: Final = "KAFKA_CREATE_TOPICS"
SEPARATOR_VARIABLE: Final = "KAFKA_CREATE_TOPICS_SEPARATOR"
"""The variable with the separator of topics in ``KAFKA_CREATE_TOPICS``. In wurstmeister's image its value is a regular expression,
here plain text with ``\\n`` for a newline."""
MAX_PARTITIONS_DIGITS: Final = 6
WANTED: Final = "give NAME:PARTITIONS[:KEY=VALUE], as in orders:3:cleanup.policy=compact"


def first_topic(text: str) -> FirstTopic:
    """Parse ``NAME[:PARTITIONS[:KEY=VALUE...]]``. Raises `BadArgument`."""
    name, *rest = text.split(":")
    configs: dict[str, str] = {}
    for assignment in rest[1:]:
        key, equals, value = assignment.partition("=")
        if not equals or not key:
            raise BadArgument(f"{text!r}: {assignment!r} is not KEY=VALUE; {WANTED}")
        configs[key] = value
    return FirstTopic(
        name=_name(name, text), partitions=_partitions(rest[0], text) if rest else 1, configs=configs, said=f"--topic {text}"
    )


def from_environment(environment: Mapping[str, str]) -> list[FirstTopic]:
    """Parse ``KAFKA_CREATE_TOPICS`` like bitnami's and wurstmeister's images: ``NAME:PARTITIONS:REPLICATION[:CLEANUP]``, separated
    by commas or newlines. The replication factor is ignored, because a single broker has one replica. Raises `BadArgument`."""
    separator = environment.get(SEPARATOR_VARIABLE, ",").strip("$'").replace("\\n", "\n") or ","
    topics = []
    for said in (part.strip() for part in environment.get(VARIABLE, "").replace("\n", separator).split(separator)):
        if not said:
            continue
        name, *rest = (field.strip() for field in said.split(":"))
        if len(rest) > 3 or (len(rest) > 1 and not rest[1].isdigit()):
            raise BadArgument(f"{VARIABLE}: {said!r} is not NAME:PARTITIONS:REPLICATION[:CLEANUP], as in orders:3:1:compact")
        topics.append(
            FirstTopic(
                name=_name(name, said),
                partitions=_partitions(rest[0], said) if rest else 1,
                configs={"cleanup.policy": rest[2]} if len(rest) == 3 and rest[2] else {},
                said=f"{VARIABLE} {said}",
            )
        )
    return topics


def _name(name: str, said: str) -> str:
    if not name:
        raise BadArgument(f"{said!r} has no name; {WANTED}")
    return name


def _partitions(text: str, said: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= MAX_PARTITIONS_DIGITS) or not int(text):
        raise BadArgument(f"{said!r}: {text!r} is not a number of partitions; {WANTED}")
    return int(text)
