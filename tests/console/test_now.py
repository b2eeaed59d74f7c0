"""The time to which the console's pages relate other times."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.console.page_request import now_of
from ottla.control.clock import ManualClock


@pytest.mark.parametrize(("is_manual", "shown_ms"), [(False, 1_700_000_000_000), (True, 1_700_000_000_999)])
def test_stopped_clock_is_shown_in_milliseconds(is_manual: bool, shown_ms: int) -> None:
    """A page is redrawn when its values change. A running clock's milliseconds would cause a redraw at each read."""
    clock = ManualClock(1_700_000_000_999)
    serving = SimpleNamespace(broker=SimpleNamespace(clock=clock))
    assert now_of(cast(Any, SimpleNamespace(serving=serving, clock=clock if is_manual else None))) == shown_ms
