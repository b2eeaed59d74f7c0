from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.simulation.controller import SimulatedController


@pytest.fixture
def controller() -> Iterator[SimulatedController]:
    controller = SimulatedController().start()
    yield controller
    controller.close()
    assert controller.bugs == 0
