"""The allowed values of configs: the validators of Kafka's ConfigDef, in the notation of keys.txt."""

from __future__ import annotations

import re
from collections.abc import Callable

_RANGE = re.compile(r"(-?[0-9.]+?)\.\.([0-9.]*)")
_DURATION = re.compile(r"P(?=.)([0-9]{1,9}D)?(T(?=.)([0-9]{1,9}H)?([0-9]{1,9}M)?([0-9]{1,9}(\.[0-9]{1,9})?S)?)?")
_REPLICAS = re.compile(r"[0-9]+:[0-9]+")


def broken(rule: str, name: str, value: object) -> str | None:
    """The reason for which a rule refuses a value, in the words of Kafka's validators; None if the value is allowed.

    Rules: ``low..high`` a range; ``{a|b}`` a or b, ``ci{a|b}`` the same in upper or lower case; ``[a|b]`` a list of a and b,
    ``[]`` any list; ``!`` not empty.
    """
    named = _NAMED.get(rule)
    if named is not None:
        return named(name, value)
    bounds = _RANGE.fullmatch(rule)
    if bounds is not None:
        return _outside(bounds[1], bounds[2], value)
    if rule.startswith("["):
        choices = rule.strip("[]!")
        return _list(choices.split("|") if choices else [], value)
    if rule.startswith("{"):
        choices = rule.strip("{}")
        return None if value in choices.split("|") else f"String must be one of: {choices.replace('|', ', ')}"
    if rule.startswith("ci{"):
        choices = rule[2:].strip("{}")
        fits = str(value).upper() in choices.upper().split("|")
        return None if fits else f"String must be one of (case insensitive): {choices.replace('|', ', ')}"
    raise ValueError(rule)


def shown(rule: str, text: str, value: object) -> str:
    """The value as an error message shows it: of a list only the first element that is not allowed."""
    if rule == "replicas" and isinstance(value, tuple):
        return f"[{', '.join(value)}]"
    if isinstance(value, tuple):
        choices = rule.strip("[]!").split("|")
        return next((part for part in value if part not in choices), text)
    return text


def _outside(low: str, high: str, value: object) -> str | None:
    assert isinstance(value, int | float)
    if value < float(low):
        return f"Value must be at least {low}"
    return f"Value must be no more than {high}" if high and value > float(high) else None


def _list(choices: list[str], value: object) -> str | None:
    assert isinstance(value, tuple)
    known = not choices or all(part in choices for part in value)
    return None if known else f"String must be one of: {', '.join(choices)}"


def _gzip_level(_: str, value: object) -> str | None:
    fits = isinstance(value, int) and (value == -1 or 1 <= value <= 9)
    return None if fits else "Value must be between 1 and 9 or equal to -1"


def _throttled_replicas(name: str, value: object) -> str | None:
    assert isinstance(value, tuple)
    if value in ((), ("*",)) or all(_REPLICAS.fullmatch(part) for part in value):
        return None
    return (
        f"{name} must be the literal '*' or a list of replicas in the following format: "
        "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
    )


def _offset_reset(name: str, value: object) -> str | None:
    """Check an offset reset strategy like ShareGroupAutoOffsetResetStrategy. Durations are in ISO 8601 and not negative."""
    text = str(value)
    if text in ("latest", "earliest") or (text.startswith("by_duration:") and _DURATION.fullmatch(text[12:].upper())):
        return None
    return (
        f"Invalid value `{text}` for configuration {name}. The value must be either 'earliest', 'latest' or of the format "
        "'by_duration:<PnDTnHnMn.nS>'."
    )


def duration_ms(text: str) -> int:
    """An ISO 8601 duration in whole ms. ``text`` must be valid, as checked by `broken`."""
    match = _DURATION.fullmatch(text.upper())
    assert match is not None, text
    days, _, hours, minutes, seconds, _ = match.groups()
    counted = zip((days, hours, minutes, seconds), (86_400_000, 3_600_000, 60_000, 1_000), strict=True)
    return int(sum(float(number[:-1]) * unit_ms for number, unit_ms in counted if number))


_NAMED: dict[str, Callable[[str, object], str | None]] = {
    "-": lambda name, value: None,
    "!": lambda name, value: None if value else "String must be non-empty",
    "gzip": _gzip_level,
    "reset": _offset_reset,
    "replicas": _throttled_replicas,
}
