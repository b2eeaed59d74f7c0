"""Reads the history of transactional ids from a broker's control API."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ottla.cli.commands import Refused
from ottla.control.timeline import holder_text

if TYPE_CHECKING:
    from ottla.client.explain.diagnosis import StableOffset
    from ottla.control.remote import Remote

UNKNOWN = "unknown transactional id"
"""Beginning of the control API's error for a transactional id without events."""


def history(control_api: Remote | None, transactional_id: str) -> dict[str, Any] | None:
    """Return the control API's events of a transactional id since the broker's start. Returns None without a control API or
    events. Raises `Refused`."""
    from ottla.control.remote import ControlError

    if control_api is None:
        return None
    try:
        return control_api.history(transactional_id)
    except ControlError as error:
        if str(error).startswith(UNKNOWN):
            return None
        raise Refused(str(error)) from None


def holders(control_api: Remote | None, partitions: Iterable[StableOffset]) -> dict[str, str]:
    """Return the clients whose transactions hold back the last stable offset, by transactional id. Raises `Refused`."""
    ids = {held.transaction.transactional_id for held in partitions if held.transaction is not None}
    told = {one: holder_text(history(control_api, one)) for one in sorted(ids)} if control_api is not None else {}
    return {one: text for one, text in told.items() if text}
