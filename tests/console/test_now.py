"""State of the control API that pages show: the broker's time, and the owners of transactional ids."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.console.page_request import clients_of, now_of
from ottla.control.clock import ManualClock
from ottla.control.history import Holder


@pytest.mark.parametrize(("is_manual", "shown_ms"), [(False, 1_700_000_000_000), (True, 1_700_000_000_999)])
def test_console_shows_milliseconds_only_of_a_manual_clock(is_manual: bool, shown_ms: int) -> None:
    """A page is redrawn when its values change. A running clock's milliseconds would cause a redraw at each read."""
    clock = ManualClock(1_700_000_000_999)
    controlled = SimpleNamespace(broker=SimpleNamespace(clock=clock), clock=clock if is_manual else None)
    assert now_of(cast(Any, controlled)) == shown_ms


def test_console_shows_the_owner_of_a_transactional_id_without_reading_its_events() -> None:
    holder = Holder(client_id="till", client_host="127.0.0.1", since_ms=0)
    controlled = cast(Any, SimpleNamespace(history=SimpleNamespace(holder={"shop": holder}.get)))
    assert clients_of(controlled, ["shop", "other"]) == {"shop": "client till at 127.0.0.1"}
