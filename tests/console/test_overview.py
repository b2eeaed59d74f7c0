"""The values of the overview, without a broker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ottla.broker.view.coordinators import Listed
from ottla.broker.view.groups import GroupLag, GroupListing
from ottla.broker.view.health import NO_STRAYS, Health
from ottla.broker.view.partitions import Totals
from ottla.broker.view.topics import TopicListing
from ottla.client.errors import ClientError, KafkaAnswered, TimedOut, Unreachable, UnsupportedRequest
from ottla.console.overview import overview
from ottla.console.page_request import Asked
from ottla.console.topics import topics
from ottla.control.faults.registry import Faults
from ottla.control.history import EventHistory
from ottla.protocol.errors import Code
from tests.console.asking import asked_with


def topic(name: str, partitions: int, *, is_internal: bool = False) -> TopicListing:
    return TopicListing(name=name, topic_id=b"", partitions=partitions, replicas=1, is_internal=is_internal)


class ShownCluster:
    """A stub of `ClusterView` with topics and groups. ``lags`` has the lag of each group, None if it cannot be read. ``unknown``
    has numbers of partitions without a known lag. ``deleted`` has the lags of groups that are no longer listed. If ``error`` is
    set, reading the lags fails."""

    def __init__(
        self, *listed: TopicListing, lags: Mapping[str, int | None] | None = None, unknown: dict[str, int] | None = None
    ) -> None:
        self.listed = list(listed)
        self.lags = lags or {}
        self.unknown = unknown or {}
        self.deleted: dict[str, int] = {}
        self.error: ClientError | None = None

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

    def totals(self, most: int) -> tuple[Totals, list[str | None]]:
        return Totals(size_bytes=0, held_count=0, held=[]), []

    def groups(self) -> Listed[Any]:
        return Listed(rows=[GroupListing(group_id=name, type="classic", state="Empty") for name in self.lags], missing=[])

    def quick_lags(self, group_ids: list[str]) -> list[GroupLag]:
        if self.error is not None:
            raise self.error
        known = {name: lag for name, lag in self.lags.items() if lag is not None and name in group_ids} | self.deleted
        return [GroupLag(group_id=name, lag=lag, uncommitted=0, unknown=self.unknown.get(name, 0)) for name, lag in known.items()]

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


def test_console_overview_counts_the_groups_whose_lag_is_not_known() -> None:
    view = ShownCluster(lags={"billing": 3, "share": None, "elsewhere": 0}, unknown={"elsewhere": 2})
    page = shown(view)
    assert (page["largest_lag"].group_id, page["unknown_lags"]) == ("billing", 2)
    assert shown(ShownCluster(lags={"billing": 3}))["unknown_lags"] == 0


def test_console_overview_ignores_the_lag_of_a_deleted_group() -> None:
    view = ShownCluster(lags={"billing": 3})
    view.deleted = {"audit": 7}
    page = shown(view)
    assert (page["largest_lag"].group_id, page["unknown_lags"]) == ("billing", 0)


@pytest.mark.parametrize(
    "error",
    [Unreachable("gone"), TimedOut("late"), KafkaAnswered("refused", Code.GROUP_AUTHORIZATION_FAILED), UnsupportedRequest("old")],
)
def test_console_overview_is_shown_without_lags_if_they_cannot_be_read(error: ClientError) -> None:
    view = ShownCluster(lags={"billing": 3, "audit": 7})
    view.error = error
    page = shown(view)
    assert (page["largest_lag"], page["unknown_lags"]) == (None, 2)
