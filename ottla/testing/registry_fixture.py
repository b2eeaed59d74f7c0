"""The fixture ``ottla_schema_registry``, which `pytest_plugin` imports."""

from __future__ import annotations

import os
from typing import Any, Final

import pytest

REGISTRY_VARIABLE: Final = "OTTLA_SCHEMA_REGISTRY"


@pytest.fixture
def ottla_schema_registry(ottla: Any) -> str:
    """The URL of a schema registry on the test's broker. It needs ``ottla[registry]``. Against an existing broker it is
    ``$OTTLA_SCHEMA_REGISTRY``."""
    from ottla.testing.handle import Broker

    if isinstance(ottla, Broker):
        return ottla.schema_registry_url
    url = os.environ.get(REGISTRY_VARIABLE)
    if not url:
        pytest.skip(f"the test needs a schema registry; give its URL as ${REGISTRY_VARIABLE}")
    return url
