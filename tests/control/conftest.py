from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.control.faulty import Faulty


@pytest.fixture
def faulty() -> Iterator[Faulty]:
    made = Faulty()
    yield made
    made.close()
