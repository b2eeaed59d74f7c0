"""Parses the sink's options: options of Spark's Kafka sink (``kafka.*``, ``topic``) and of a producer. Unknown options are
errors; for a producer's options that the sink does not need see `producer_options`."""

from __future__ import annotations

import difflib
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from ottla.client.security.client_config import OF_CONNECTIONS, PREFIX, Connecting
from ottla.protocol.records import COMPRESSIONS
from ottla.spark.errors import PipelineError
from ottla.spark.progress.progress_topic import DEFAULT_TOPIC
from ottla.spark.sink import producer_options
from ottla.spark.sink.transaction import TRANSACTION_TIMEOUT_MS

WRITERS: Final = ("tasks", "driver")
COMPRESSION: Final = "lz4"
MAX_RUN_BYTES: Final = 200
"""Maximum length of a run id, in bytes. The progress record with run id and input ends is metadata of an offset, and a broker
accepts 4 KiB of metadata."""
NONE: Final = "none"
"""The value of ``progress.topic`` that disables the progress topic."""
FRAME_NAME, FRAME_NUMBER = "frame.name", "frame.number"
"""Options of ``write.format("ottla")``, which identify the frame. They are no options of a sink."""
_MAX_TIMEOUT_MS: Final = (1 << 31) - 1
_SPARKS = frozenset({"checkpointlocation", "path", "queryname", "outputmode"})
"""Options that Spark itself passes to a sink."""


class SinkOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The parsed options of a sink.

    Without ``topic`` each row names its topic, which must be in ``topics`` if set. ``writer`` is ``tasks`` (Spark's tasks share a
    transaction) or ``driver`` (for brokers without transaction version 2). ``run`` is the id of this start of the stream, in each
    progress record. ``mark_topic``: see `mark_topic`. Without ``progress_topic`` progress records are only in the consumer group.
    ``accepts_skipped``: whether the stream continues after batches that the foreachBatch function did not give to the sink.
    """

    connecting: Connecting
    transactional_id: str
    topic: str | None = None
    topics: tuple[str, ...] = ()
    mark_topic: str | None = None
    progress_topic: str | None = DEFAULT_TOPIC
    accepts_skipped: bool = True
    compression: str = COMPRESSION
    timeout_ms: int = TRANSACTION_TIMEOUT_MS
    writer: str = "tasks"
    run: str = ""


def parse_options(options: Mapping[str, Any]) -> SinkOptions:
    """Parse the options. The case of their names does not matter. Raises `PipelineError`, which names the option."""
    values: dict[str, Any] = {"run": uuid.uuid4().hex[:12]}
    spelled: dict[str, str] = {}
    unneeded: list[tuple[str, str]] = []
    for name, value in options.items():
        if not isinstance(name, str):
            raise PipelineError(f"the sink has no option {name!r}: the name of an option is a text")
        plain = name.lower().removeprefix(PREFIX)
        if plain in _PARSED:
            if value is not None:
                field, parse = _PARSED[plain]
                if spelled.setdefault(field, name) != name:
                    raise PipelineError(f"options {spelled[field]!r} and {name!r} are the same option: give one of them")
                values[field] = parse(name, _as_spark_writes(name, value))
        elif plain in _SPARKS or plain.startswith(OF_CONNECTIONS):
            continue
        elif value is None or producer_options.accepts(plain, _as_spark_writes(name, value).strip(), name):
            unneeded.append((plain, name))
        else:
            raise PipelineError(f"the sink has no option {name!r}{_meant(plain)}")
    if "transactional_id" not in values:
        raise PipelineError(
            "the sink needs the option 'transactional.id': a name that no other stream uses, the same at each start"
        )
    if "topic" in values:
        if values["topic"] not in values.get("topics", (values["topic"],)):
            raise PipelineError(f"option 'topic' is {values['topic']!r}, which is not in the option 'topics': give one of them")
        values["topics"] = (values["topic"],)
    parsed = SinkOptions(connecting=Connecting.parse(options), **values)
    if parsed.progress_topic in parsed.topics:
        raise PipelineError("option 'progress.topic' is a topic that rows are written to: progress records need another topic")
    producer_options.note_without_effect(unneeded)
    return parsed


def _as_spark_writes(name: str, value: object) -> str:
    """Convert an option's value to text like Spark. The caller treats None as unset."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise PipelineError(f"option {name!r} is {value!r}, not a text")


def _text(name: str, value: str) -> str:
    if not value.strip():
        raise PipelineError(f"option {name!r} is {value!r}, not a text")
    return value


def _or_none(name: str, value: str) -> str | None:
    return None if _text(name, value).lower() == NONE else value


def _names(name: str, value: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in value.split(",") if part.strip())
    if not names:
        raise PipelineError(f"option {name!r} is {value!r}, which is empty")
    return names


def _short(name: str, value: str) -> str:
    size_bytes = len(_text(name, value).encode())
    if size_bytes > MAX_RUN_BYTES:
        raise PipelineError(
            f"option {name!r} has {size_bytes:,} bytes; at most {MAX_RUN_BYTES} are allowed, because each progress record"
            " contains it"
        )
    return value


def _one_of(*allowed: str) -> Callable[[str, str], str]:
    def parse(name: str, value: str) -> str:
        if value.lower() not in allowed:
            raise PipelineError(f"option {name!r} is {value!r}; it can be {', '.join(allowed)}")
        return value.lower()

    return parse


def _milliseconds(name: str, value: str) -> int:
    if (
        not (value.isascii() and value.isdigit() and len(value) <= producer_options.MAX_DIGITS)
        or not 0 < int(value) <= _MAX_TIMEOUT_MS
    ):
        raise PipelineError(f"option {name!r} is {value!r}, not a number of milliseconds")
    return int(value)


_PARSED: dict[str, tuple[str, Callable[[str, str], object]]] = {
    "transactional.id": ("transactional_id", _text),
    "topic": ("topic", _text),
    "topics": ("topics", _names),
    "mark.topic": ("mark_topic", _text),
    "progress.topic": ("progress_topic", _or_none),
    # Old versions of ottla named the option mark.log.topic.
    "mark.log.topic": ("progress_topic", _or_none),
    "skipped.batches": ("accepts_skipped", lambda name, value: _one_of("warn", "fail")(name, value) == "warn"),
    "compression.type": ("compression", _one_of(*COMPRESSIONS)),
    "transaction.timeout.ms": ("timeout_ms", _milliseconds),
    "writer": ("writer", _one_of(*WRITERS)),
    "run.id": ("run", _short),
}


def _meant(plain: str) -> str:
    close = difflib.get_close_matches(plain, [*_PARSED, *producer_options.names()], 1)
    return (
        f"; did you mean {close[0]!r}?"
        if close
        else f"; its options are {', '.join(sorted(_PARSED))}, and kafka.* for the connection"
    )
