"""The ids that tests get in a run with xdist."""

from __future__ import annotations

import pytest


@pytest.mark.xdist_group("sharing")
def test_pytest_id_contains_the_xdist_group_with_dist_loadgroup(request: pytest.FixtureRequest) -> None:
    """With ``--dist loadgroup`` pytest-xdist appends a test's group to its id; otherwise it ignores the groups.

    Without groups, each worker would start a broker or Spark session that one worker could start for all of the group's tests.
    """
    is_shared = getattr(request.config.option, "loadgroup", False)
    assert request.node.nodeid.endswith("@sharing") == is_shared


def test_ids_of_tests_fit_into_an_environment_variable(request: pytest.FixtureRequest) -> None:
    """pytest stores the id of the running test in PYTEST_CURRENT_TEST, which every process that the test starts inherits."""
    assert max(len(item.nodeid) for item in request.session.items) < 2_000
