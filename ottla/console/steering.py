"""The page ``steering``: the faults and the clock. The page changes them by commands of the control API."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from ottla.console.page_request import Asked
from ottla.control.command import ControlledBroker
from ottla.control.faults.added_fault import AddedFault, FaultView

HITS_SHOWN: Final = 3


def steering(asked: Asked) -> dict[str, Any]:
    def read(controlled: ControlledBroker) -> dict[str, Any]:
        return {
            "faults": [_view(added) for added in controlled.faults.all()],
            "clock_ms": None if controlled.clock is None else controlled.clock.now_ms(),
        }

    return asked.loop.read(read)


def _view(added: AddedFault) -> FaultView:
    """Return a fault with its newest hits. The hits' requests are omitted; `GET /v1/faults` returns them."""
    view = added.view()
    newest = [msgspec.structs.replace(hit, request={}) for hit in view.newest_hits[-HITS_SHOWN:]]
    return msgspec.structs.replace(view, newest_hits=newest)
