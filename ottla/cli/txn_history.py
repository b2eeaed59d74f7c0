"""Asks a broker's control API, where there is one, what it knows of transactional ids."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ottla.cli.commands import Refused
from ottla.control.timeline import holder_text

if TYPE_CHECKING:
    from ottla.client.diagnosis import StableOffset
    from ottla.control.remote import Remote

UNKNOWN = "nothing is known of a transactional id"
"""How the control API's refusal begins for a transactional id without events."""


def history(control_api: Remote | None, transactional_id: str) -> dict[str, Any] | None:
    """The control API's events of an id; None without a control API, and for an id without events since the broker began. Raises
    `Refused`."""
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
    """The client of each transactional id that holds readers, by id. Raises `Refused`."""
    ids = {held.transaction.transactional_id for held in partitions if held.transaction is not None}
    told = {one: holder_text(history(control_api, one)) for one in sorted(ids)} if control_api is not None else {}
    return {one: text for one, text in told.items() if text}
