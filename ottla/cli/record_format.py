r"""Formats records by a text with kcat's letters, as in ``%t [%p] at %o: %k %s\n``."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from ottla.arguments import BadArgument
from ottla.client import ConsumedRecord

Part = Callable[[ConsumedRecord], bytes]

MAX_ESCAPED: Final = 0xFF


def _length(value: bytes | None) -> int:
    """Return the length of a key or value; -1 for null, as in kcat."""
    return -1 if value is None else len(value)


def _headers(record: ConsumedRecord) -> bytes:
    return b",".join(name.encode() + b"=" + (b"NULL" if value is None else value) for name, value in record.headers)


LETTERS: Final[dict[str, Part]] = {
    "s": lambda record: record.value or b"",
    "v": lambda record: record.value or b"",
    "S": lambda record: b"%d" % _length(record.value),
    "R": lambda record: _length(record.value).to_bytes(4, "big", signed=True),
    "k": lambda record: record.key or b"",
    "K": lambda record: b"%d" % _length(record.key),
    "T": lambda record: b"%d" % record.timestamp_ms,
    "h": _headers,
    "t": lambda record: record.topic.encode(),
    "p": lambda record: b"%d" % record.partition,
    "o": lambda record: b"%d" % record.offset,
}
"""The letters after ``%``: kcat's, and rpk's ``v`` for the value."""
_ESCAPE = re.compile(rb"\\(x[0-9a-fA-F]{1,2}|[0-9]{1,3}|.)", re.DOTALL)
_NAMED: Final = {b"n": b"\n", b"r": b"\r", b"t": b"\t"}


class RecordFormat:
    """A parsed format text. Raises `BadArgument` for an unknown letter, and for an escape above 255."""

    def __init__(self, text: str) -> None:
        self._parts: list[Part | bytes] = []
        literals = text.split("%")
        self._add(literals[0])
        at = 1
        while at < len(literals):
            following = literals[at]
            if following:
                if following[0] not in LETTERS:
                    raise BadArgument(f"unknown letter %{following[0]}; the letters are {' '.join(LETTERS)} and %%")
                self._parts.append(LETTERS[following[0]])
                self._add(following[1:])
            elif at + 1 < len(literals):
                # The text is split at each ``%``. An empty text is from ``%%``, which prints one percent sign.
                at += 1
                self._add("%" + literals[at])
            else:
                raise BadArgument(f"a letter is missing after the last %; the letters are {' '.join(LETTERS)} and %%")
            at += 1

    def _add(self, literal: str) -> None:
        if literal:
            self._parts.append(_ESCAPE.sub(_unescaped, literal.encode("utf-8", "surrogateescape")))

    def __call__(self, record: ConsumedRecord) -> bytes:
        return b"".join(part if isinstance(part, bytes) else part(record) for part in self._parts)


def _unescaped(found: re.Match[bytes]) -> bytes:
    """Return the byte of an escape sequence. As in C, and in kcat, a number with a leading 0 is octal."""
    text = found[1]
    if text[:1] == b"x" and len(text) > 1:
        return bytes([int(text[1:], 16)])
    if text.isdigit():
        is_octal = text[:1] == b"0" and len(text) > 1 and not set(text) & set(b"89")
        number = int(text, 8 if is_octal else 10)
        if number > MAX_ESCAPED:
            raise BadArgument(f"the escape \\{text.decode()} is above {MAX_ESCAPED}")
        return bytes([number])
    return _NAMED.get(text, text)
