"""Parses names of APIs, of their fields and of Kafka's errors. The error for a wrong name suggests the nearest names."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable
from functools import cache
from importlib import import_module

import msgspec

from ottla.protocol.errors import Code
from ottla.protocol.messages import APIS

NEAREST = 3
"""Maximum number of names that are suggested for a wrong name."""
LARGEST_NUMBER = (1 << 63) - 1
"""The largest int64, because no number in Kafka's protocol is larger."""
MAX_DIGITS = 5
"""Maximum number of digits of an API key, a version or an error code, which are int16."""


class FaultError(ValueError):
    """A fault is invalid. The message is one line that says what is wrong and how to correct it."""


ERRORS: dict[str, int] = {code.name: int(code) for code in Code if code is not Code.NONE}


def too_large() -> FaultError:
    return FaultError(f"a number is too large; the numbers of a fault are at most {LARGEST_NUMBER:,}")


def is_number(text: str) -> bool:
    """Whether a text consists of at most `MAX_DIGITS` ASCII digits. Other digits are excluded, because `int` rejects some of
    Unicode's digits."""
    return text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS


_SHORT = reprlib.Repr()
_SHORT.maxstring = 100


def shown(value: object) -> str:
    """Format a value as short text for an error."""
    return _SHORT.repr(value)


def one_of(names: Iterable[str]) -> str:
    """Join the names as ``a, b or c``."""
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


def unknown(what: str, name: object, names: Iterable[str]) -> FaultError:
    """Create the error for an unknown name: ``unknown API 'EndTx'; did you mean EndTxn or EndQuorumEpoch?``"""
    from difflib import get_close_matches

    by_lower = {known.lower(): known for known in names}
    wrong = shown(name)
    near = [by_lower[lower] for lower in get_close_matches(wrong.strip("'").lower(), by_lower, NEAREST, 0.5)]
    if near:
        return FaultError(f"unknown {what} {wrong}; did you mean {one_of(near)}?")
    return FaultError(f"unknown {what} {wrong}; known ones include {', '.join(list(by_lower.values())[:NEAREST])}")


def error_code(error: str | int) -> int:
    """Return the code of an error, which is given by name or code. Raises `FaultError`."""
    text = str(error).strip()
    if is_number(text.removeprefix("-")):
        if int(text) in ERRORS.values():
            return int(text)
    elif text.upper() in ERRORS:
        return ERRORS[text.upper()]
    if text.upper() in ("NONE", "0"):
        raise FaultError("NONE is not an error; use observe: true to only count requests")
    raise unknown("error", error, ERRORS)


ANY = "*"

KEYS = {entry.name: key for key, entry in APIS.items()}
_KEYS_BY_LOWER = {name.lower(): key for name, key in KEYS.items()}


def api_key(api: str | int) -> int | None:
    """Return the key of an API, which is given by name or key; None for `ANY`. Raises `FaultError`."""
    text = str(api).strip()
    if text == ANY:
        return None
    if is_number(text):
        if int(text) in APIS:
            return int(text)
        raise FaultError(f"unknown API key {text}; give a key from 0 to {max(APIS)}, or a name such as EndTxn")
    key = _KEYS_BY_LOWER.get(text.replace("_", "").lower())
    if key is None:
        raise unknown("API", api, KEYS)
    return key


@cache
def request_type(key: int) -> type[msgspec.Struct]:
    return _message(key, "Request")


@cache
def response_type(key: int) -> type[msgspec.Struct]:
    return _message(key, "Response")


def _message(key: int, kind: str) -> type[msgspec.Struct]:
    entry = APIS[key]
    message: type[msgspec.Struct] = getattr(import_module(f"ottla.protocol.messages.{entry.module}"), f"{entry.name}{kind}")
    return message


def versions(text: str | int) -> tuple[int, int]:
    """Return the first and last version of a range: ``3``, ``3-5`` or ``3+``. Raises `FaultError`."""
    first, dash, last = str(text).replace(" ", "").partition("-")
    if not dash and first.endswith("+"):
        first, last = first[:-1], "32767"
    elif not dash:
        last = first
    if not (is_number(first) and is_number(last)) or int(first) > int(last):
        raise FaultError(f"{shown(text)} is not a version; give one such as 3, a range such as 3-5, or 3+ for version 3 and newer")
    return int(first), int(last)
