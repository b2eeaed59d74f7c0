"""Parses faults from JSON or YAML."""

from __future__ import annotations

from typing import Any

import msgspec

from ottla.control.faults.api_names import LARGEST_NUMBER, FaultError, shown, too_large, unknown
from ottla.control.faults.fault import Fault

MAX_TEXT_BYTES = 1 << 16
"""Maximum size, in bytes, of a text with faults. Parsing the most deeply nested YAML of this size takes a second."""
MAX_VALUES = 1 << 15
"""Maximum number of values, counting the values of an alias at each use. Within the size limit, only a text with aliases can have
more."""
MAX_DEPTH = 40
"""Maximum nesting of lists and mappings. Kafka's messages are nested less deeply."""
MAX_SAID = 200
"""Maximum length, in characters, of a library's message that is quoted in an error."""


def parse_faults(text: str | bytes) -> list[Fault]:
    """Parse a JSON or YAML text with one fault or a list of faults. Raises `FaultError`; for a list the message has the invalid
    fault's number."""
    if len(text) > MAX_TEXT_BYTES:
        raise FaultError(f"the faults have {len(text):,} bytes; at most {MAX_TEXT_BYTES:,} are allowed")
    given = _decoded(text)
    _check_values(given)
    if not isinstance(given, list):
        return [fault_of(given)]
    faults = []
    for number, one in enumerate(given, 1):
        try:
            faults.append(fault_of(one))
        except FaultError as error:
            raise FaultError(f"fault {number}: {error}") from None
    return faults


def _decoded(text: str | bytes) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.ValidationError:
        # The text is JSON with a number that is too large. YAML would parse a number like 1e400 as text.
        raise too_large() from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    # PyYAML is imported here, because the import takes a while and most texts are JSON.
    import yaml

    try:
        return yaml.safe_load(text)
    except Exception as error:
        # PyYAML's conversion of dates, numbers and tagged values may raise errors of any type, such as KeyError.
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f" in line {mark.line + 1}"
        # Omit the part of Python's message after a semicolon: advice for programmers, such as how to raise a limit.
        converted = str(error).partition(";")[0] if isinstance(error, ArithmeticError | ValueError) else ""
        what = getattr(error, "problem", None) or converted
        raise FaultError(
            f"the faults are neither JSON nor YAML{where}: {' '.join(what.split())[:MAX_SAID] or 'they cannot be parsed'}"
        ) from None


def _check_values(given: Any) -> None:
    """Raise `FaultError` for values that JSON cannot represent, because a broker shows its faults as JSON. YAML has dates, bytes,
    large numbers, and values that contain themselves."""
    left, seen = [(given, 0)], 1
    while left:
        value, depth = left.pop()
        if isinstance(value, dict | list):
            within = [*value, *value.values()] if isinstance(value, dict) else value
            seen += len(within)
            if seen > MAX_VALUES:
                raise FaultError(
                    f"the faults have too many values; at most {MAX_VALUES:,} are allowed, including the values that aliases repeat"
                )
            if depth == MAX_DEPTH:
                raise FaultError(f"a value is nested too deeply; at most {MAX_DEPTH} levels are allowed")
            left.extend((one, depth + 1) for one in within)
        else:
            _check_value(value)


def _check_value(value: Any) -> None:
    if isinstance(value, int) and abs(value) > LARGEST_NUMBER:
        raise too_large()
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise FaultError(f"{shown(value)} is not valid text: half of a surrogate pair is missing") from None
    elif not isinstance(value, int | float | None):
        raise FaultError(f"{shown(value)} is neither text nor a number; put it in quotes")


def fault_of(given: Any) -> Fault:
    """Create a fault from a mapping. Raises `FaultError`."""
    if not isinstance(given, dict):
        what = "nothing" if given is None else shown(given)
        raise FaultError(f"a fault must be a mapping such as {{api: EndTxn, drop_answer: true}}, not {what}")
    for name in given:
        if name not in Fault.__struct_fields__:
            raise unknown("field", name, Fault.__struct_fields__)
    try:
        # The constructor checks every field, so errors are the same for JSON, YAML and Python.
        return Fault(**given)
    except RecursionError:
        raise FaultError("the fault is nested too deeply") from None
