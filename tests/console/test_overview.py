"""The values of the overview, without a broker."""

from __future__ import annotations

from typing import Any

from ottla.broker.view.coordinators import Listed
from ottla.broker.view.health import NO_STRAYS, Health
from ottla.broker.view.partitions import Totals
from ottla.broker.view.topics import TopicListing
from ottla.console.overview import overview
from ottla.console.topics import topics
from ottla.control.faults.registry import Faults
from ottla.control.history import EventHistory
from tests.console.asking import asked_with


def topic(name: str, partitions: int, *, is_internal: bool = False) -> TopicListing:
    return TopicListing(name=name, topic_id=b"", partitions=partitions, replicas=1, is_internal=is_internal)


class ShownCluster:
    """A stub of `ClusterView` with topics only."""

    def __init__(self, *listed: TopicListing) -> None:
        self.listed = list(listed)

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
        return Listed(rows=[], missing=[])

    def transactions(self) -> Listed[Any]:
        return Listed(rows=[], missing=[])


def shown(view: ShownCluster) -> dict[str, Any]:
    return overview(asked_with(view=view, faults=Faults(), history=EventHistory(), clock=None))


def test_console_overview_counts_as_many_topics_as_the_list_of_topics() -> None:
    view = ShownCluster(topic("orders", 3), topic("bills", 2), topic("__consumer_offsets", 50, is_internal=True))
    page = shown(view)
    assert (page["topics"], page["partitions"], page["internal_topics"]) == (2, 5, 1)
    assert page["topics"] + page["internal_topics"] == topics(asked_with(view=view))["part"].total
