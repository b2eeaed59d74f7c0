"""Reads faults from JSON, or from YAML, which includes JSON."""

from __future__ import annotations

from typing import Any

import msgspec

from ottla.control.fault import Fault
from ottla.control.naming import FaultError, shown, unknown

MAX_TEXT_BYTES = 1 << 16
"""The largest text of faults, in bytes. YAML that is nested as deeply as this size allows takes a second."""


def parse_faults(text: str | bytes) -> list[Fault]:
    """The faults in a JSON or YAML text that has one fault or a list of faults. Raises `FaultError`; for a list the text says which
    fault is wrong."""
    if len(text) > MAX_TEXT_BYTES:
        raise FaultError(f"{len(text):,} bytes are too many for faults; {MAX_TEXT_BYTES:,} are taken")
    given = _decoded(text)
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
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    # JSON is the usual case, and the import of YAML takes a while.
    import yaml

    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f" in line {mark.line + 1}"
        raise FaultError(f"neither JSON nor YAML{where}: {getattr(error, 'problem', None) or 'it cannot be read'}") from None


def fault_of(given: Any) -> Fault:
    """The fault of a mapping. Raises `FaultError`."""
    if not isinstance(given, dict):
        what = "nothing" if given is None else shown(given)
        raise FaultError(f"a fault is a mapping such as {{api: EndTxn, drop_answer: true}}, and not {what}")
    for name in given:
        if name not in Fault.__struct_fields__:
            raise unknown("field", name, Fault.__struct_fields__)
    try:
        # The constructor checks every field, so that the messages are the same wherever a fault comes from.
        return Fault(**given)
    except RecursionError:
        raise FaultError("it is nested too deeply") from None
