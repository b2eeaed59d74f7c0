"""Groups and order of tests in a run with several processes (``--dist loadgroup``)."""

from __future__ import annotations

from collections import Counter

import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    """Put tests that need the same broker or Spark session into one group, so that only one process starts it.

    Other tests are grouped by file. Tests marked ``long`` and simulated scenarios, which start no process, have no group. All
    processes of a run share one Apache Kafka.
    """
    params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    if params.get("target") == "simulated":
        return
    scenario = params.get("scenario")
    if "target" in params and (scenario is not None or params["target"] == "ottla"):
        group = f"{params['target']} {'default' if scenario is None else scenario.broker}"
    elif item.get_closest_marker("xdist_group") or item.get_closest_marker("long"):
        return
    elif "spark" in getattr(item, "fixturenames", ()):
        group = "spark"
    else:
        group = f"{item.path.parent.name}/{item.path.stem}"
    item.add_marker(pytest.mark.xdist_group(group))


def _group(item: pytest.Item) -> str:
    mark = item.get_closest_marker("xdist_group")
    return item.nodeid if mark is None else str(mark.args[0])


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort long tests first, then tests with brokers, which mostly wait, then heavy tests, then all other tests.

    Long tests and tests with brokers begin with the largest group, so that no process runs a large group at the end.
    """
    sizes = Counter(_group(item) for item in items)

    def place(item: pytest.Item) -> tuple[int, int]:
        if item.get_closest_marker("long"):
            return 0, -sizes[_group(item)]
        if item.get_closest_marker("xdist_group") is None:
            return 4, 0
        if item.get_closest_marker("wire"):
            return 1, -sizes[_group(item)]
        return (2 if item.get_closest_marker("heavy") else 3), 0

    items.sort(key=place)
