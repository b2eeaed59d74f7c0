"""The values of the overview, without a broker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.view.coordinators import Listed
from ottla.broker.view.groups import GroupLag, GroupListing
from ottla.broker.view.health import NO_STRAYS, Health
from ottla.broker.view.partitions import Totals
from ottla.broker.view.topics import TopicListing
from ottla.console import overview as overview_page
from ottla.console.overview import LAGS_PER_S, overview
from ottla.console.page_request import Asked
from ottla.console.topics import topics
from ottla.control.faults.registry import Faults
from ottla.control.history import EventHistory
from tests.console.asking import asked_with


def topic(name: str, partitions: int, *, is_internal: bool = False) -> TopicListing:
    return TopicListing(name=name, topic_id=b"", partitions=partitions, replicas=1, is_internal=is_internal)


class ShownCluster:
    """A stub of `ClusterView` with topics, and with the lags of groups. Counts how often the lags are read."""

    def __init__(self, *listed: TopicListing, lags: dict[str, int] | None = None) -> None:
        self.listed = list(listed)
        self.known_lags = lags or {}
        self.readings = 0

    def health(self) -> Health:
        return Health(
            bootstrap="b:1", cluster_id="c", data_dir="", is_sound=True, problems=[], strays=NO_STRAYS, unexpected_errors=0
        )

    def reported_strays(self) -> list[Any]:
        return []

    def brokers(self) -> list[Any]:
        return []

    def topics(self) -> list[TopicListing]:
        return self.listed

    def sizes(self, listings: list[TopicListing]) -> list[Any]:
        return [{} for _ in listings]

    def totals(self, most: int) -> Totals:
        return Totals(size_bytes=0, held_count=0, held=[])

    def groups(self) -> Listed[Any]:
        return Listed(rows=[GroupListing(group_id=name, type="classic", state="Empty") for name in self.known_lags], missing=[])

    def quick_lags(self, group_ids: list[str]) -> list[GroupLag]:
        self.readings += 1
        return [GroupLag(group_id=name, lag=self.known_lags[name], uncommitted=0, unknown=0) for name in group_ids]

    def transactions(self) -> Listed[Any]:
        return Listed(rows=[], missing=[])


def asked(view: ShownCluster) -> Asked:
    return asked_with(view=view, faults=Faults(), history=EventHistory(), clock=None)


def shown(view: ShownCluster) -> dict[str, Any]:
    return overview(asked(view))


def test_console_overview_counts_as_many_topics_as_the_list_of_topics() -> None:
    view = ShownCluster(topic("orders", 3), topic("bills", 2), topic("__consumer_offsets", 50, is_internal=True))
    page = shown(view)
    assert (page["topics"], page["partitions"], page["internal_topics"]) == (2, 5, 1)
    assert page["topics"] + page["internal_topics"] == topics(asked_with(view=view))["part"].total


@pytest.mark.parametrize(
    ("lags", "largest"),
    [({}, None), ({"billing": 0}, None), ({"billing": 3, "audit": 7, "idle": 0}, ("audit", 7))],
)
def test_console_overview_names_the_group_with_the_largest_lag(lags: dict[str, int], largest: tuple[str, int] | None) -> None:
    found = shown(ShownCluster(lags=lags))["largest_lag"]
    assert (None if found is None else (found.group_id, found.lag)) == largest


def test_console_overview_reads_the_lags_of_many_groups_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(overview_page, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    view = ShownCluster(lags={f"group-{number:04}": number for number in range(10 * LAGS_PER_S)})
    request = asked(view)
    for tenth in range(1, 200):
        clock[0] = tenth / 10
        assert overview(request)["largest_lag"].group_id == "group-0999"
    assert view.readings == 2, "the lags of 1,000 groups are read every ten seconds"
    del view.known_lags["group-0999"]
    assert overview(request)["largest_lag"].group_id == "group-0998", "a deleted group is not named"
