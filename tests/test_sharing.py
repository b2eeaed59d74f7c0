"""Tests of one xdist group run in one process (tests/conftest.py)."""

from __future__ import annotations

import pytest


@pytest.mark.xdist_group("sharing")
def test_xdist_groups_are_known_to_the_scheduler(request: pytest.FixtureRequest) -> None:
    """pytest-xdist writes a test's group into its id. Without that each process starts what only one of them needs."""
    is_shared = getattr(request.config.option, "loadgroup", False)
    assert request.node.nodeid.endswith("@sharing") == is_shared


def test_ids_fit_into_an_environment_variable(request: pytest.FixtureRequest) -> None:
    """pytest hands it to every process that a test starts, in PYTEST_CURRENT_TEST."""
    assert max(len(item.nodeid) for item in request.session.items) < 2_000
