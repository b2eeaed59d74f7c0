"""The arguments of the ``ottla produce`` command that writes a record, or the reason why no command can."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ottla.console.actions.action import named, option

COMMAND_BYTES: Final = 100 << 10
"""Maximum size, in bytes, of a value in a command. Linux limits an argument to 128 KiB."""


def produce_arguments(
    topic: str,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes | None]],
    partition: int | None,
    options: Sequence[str] = (),
) -> tuple[list[str], str]:
    """Return the arguments, with ``options`` before the topic, or no arguments and the reason why there is no command. Bytes that
    are not UTF-8 become surrogate escapes."""
    problem = _problem(key, value, headers)
    if problem:
        return [], problem
    arguments = ["produce", *option("--key", None if key is None else _text(key))]
    arguments += ["--null-value"] if value is None else option("--value", _text(value))
    for name, data in headers:
        arguments += option("--header", f"{name}={_text(data or b'')}")
    return [*arguments, *option("--partition", partition), *options, *named(topic)], ""


def _problem(key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]) -> str:
    if value is None and key is None:
        return "ottla produce writes a null value only with a key"
    fields = [value or b"", key or b"", *(part for name, data in headers for part in (name.encode(), data or b""))]
    if any(len(field) > COMMAND_BYTES for field in fields):
        return f"a field has more than {COMMAND_BYTES >> 10} KiB, which is too large for a command"
    if any(b"\0" in field for field in fields):
        return "a command cannot contain NUL bytes"
    if any(data is None or "=" in name or not name or name.strip() != name for name, data in headers):
        return "a header has the value null, or a name that a command cannot contain"
    if any(data is not None and data.strip() != data for _, data in headers):
        return "ottla produce removes the blanks around a header's value"
    return ""


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
