"""Console pages read a cluster of 10,000 topics and 1,000 groups at a bounded rate, however often they refresh."""

from __future__ import annotations

from contextlib import closing
from types import SimpleNamespace
from typing import Any, cast

import msgspec

from ottla.client.admin.groups import GroupListing
from ottla.console import client_view
from ottla.console.client_view import ClientView
from ottla.console.groups import groups
from ottla.console.kept_reads import LONGEST_S, KeptReads
from ottla.console.own_broker import OwnBroker
from ottla.console.topics import topics
from ottla.protocol.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from tests.broker.view.viewed_world import ViewedWorld
from tests.console.asking import StillLoop, asked_with

TOPICS, GROUPS = 10_000, 1_000


def listing(group_id: str, group_type: str = "classic") -> GroupListing:
    return GroupListing(group_id=group_id, group_type=group_type, state="Stable", protocol_type="consumer", coordinator=0)


class Cluster:
    """Counts the topics and groups in its responses."""

    bootstrap = "kafka:9092"

    def __init__(self) -> None:
        self.now_s = 0.0
        self.kept = KeptReads(lambda: self.now_s)
        self.sent: dict[str, int] = {"all topics": 0, "topics by name": 0, "groups": 0}
        self.names = [f"topic-{number:05}" for number in range(TOPICS)]

    def metadata(self, names: list[str] | None) -> MetadataResponse:
        chosen = self.names if names is None else names
        self.sent["all topics" if names is None else "topics by name"] += len(chosen)
        partition = MetadataResponsePartition(partition_index=0, leader_id=0, replica_nodes=[0], isr_nodes=[0])
        return MetadataResponse(topics=[MetadataResponseTopic(name=name, partitions=[partition]) for name in chosen])

    def until_final(self, what: str, ask: Any) -> Any:
        return ask()

    def view(self) -> ClientView:
        return ClientView(cast(Any, lambda: SimpleNamespace(brokers=self)), self.kept)

    def listed(self, brokers: object, silent: object) -> list[GroupListing]:
        self.sent["groups"] += GROUPS
        return [cast(Any, SimpleNamespace(group_id=f"g{number}", group_type="classic", state="Empty")) for number in range(GROUPS)]


def test_console_topic_list_reads_details_of_its_visible_topics_only(monkeypatch: Any) -> None:
    cluster = Cluster()
    monkeypatch.setattr(client_view, "offsets_by_leader", lambda *given, **more: {})
    sized: list[int] = []
    monkeypatch.setattr(client_view, "log_sizes", lambda brokers, nodes, wanted: sized.append(len(wanted)) or {})
    for _ in range(100):
        page = topics(asked_with(view=cluster.view()))
        assert (len(page["part"].rows), page["part"].total) == (100, TOPICS)
        cluster.now_s += 1
    assert cluster.sent == {"all topics": 10 * TOPICS, "topics by name": 100 * 100, "groups": 0}
    assert sized == [100] * 100
    assert len(msgspec.json.encode(page)) < 32_000


def test_console_group_list_reads_committed_offsets_of_its_visible_groups_only(monkeypatch: Any) -> None:
    cluster = Cluster()
    asked_for: list[int] = []
    monkeypatch.setattr(client_view.groups, "list_groups", cluster.listed)
    monkeypatch.setattr(
        client_view, "committed_offsets", lambda brokers, listings, silent: asked_for.append(len(list(listings))) or {}
    )
    monkeypatch.setattr(client_view, "offsets_by_leader", lambda *given, **more: {})
    for _ in range(10):
        assert len(groups(asked_with(view=cluster.view()))["part"].rows) == 100
        cluster.now_s += 0.5
    assert cluster.sent == {"all topics": 0, "topics by name": 0, "groups": 5 * GROUPS}
    assert asked_for == [100] * 10


def test_console_caches_cluster_reads_only_in_large_clusters_and_for_a_limited_time() -> None:
    clock = [0.0]
    kept = KeptReads(lambda: clock[0])
    reads = 0

    def read() -> int:
        nonlocal reads
        reads += 1
        return reads

    def read_at(now_s: float, name: str, items: int) -> int:
        clock[0] = now_s
        return kept.get(name, read, lambda _: items)

    assert [read_at(now_s, "few", 3) for now_s in (0.0, 0.25, 0.5)] == [1, 2, 3]
    assert [read_at(now_s, "many", 10**9) for now_s in (0.0, LONGEST_S - 1, LONGEST_S)] == [4, 4, 5]


def test_console_action_invalidates_cached_and_running_reads() -> None:
    kept = KeptReads(lambda: 0.0)

    def interrupted() -> str:
        kept.clear()
        return "before the action"

    assert kept.get("topics", interrupted, lambda _: 10_000) == "before the action"
    assert kept.get("topics", lambda: "after", lambda _: 10_000) == "after"
    assert kept.get("topics", lambda: "not read", lambda _: 10_000) == "after"
    kept.clear()
    assert kept.get("topics", lambda: "again", lambda _: 10_000) == "again"


def test_console_overview_sends_no_request_for_each_share_group_of_a_cluster(monkeypatch: Any) -> None:
    cluster = Cluster()
    listed = [listing(kind, kind) for kind in ("classic", "Share", "consumer")]
    asked_for: list[str] = []

    def committed(brokers: object, listings: Any, silent: object) -> dict[str, Any]:
        asked_for.extend(one.group_id for one in listings)
        return {name: {("topic-00000", 0): 3} for name in asked_for}

    monkeypatch.setattr(client_view.groups, "list_groups", lambda brokers, silent: listed)
    monkeypatch.setattr(client_view, "committed_offsets", committed)
    monkeypatch.setattr(client_view, "offsets_by_leader", lambda *given, **more: {("topic-00000", 0): 10})
    lags = cluster.view().quick_lags(["classic", "Share", "consumer", "deleted"])
    assert [(one.group_id, one.lag) for one in lags] == [("classic", 7), ("consumer", 7)]
    assert asked_for == ["classic", "consumer"]


def test_console_overview_reads_the_lag_of_many_partitions_seldom(monkeypatch: Any) -> None:
    cluster = Cluster()
    asked_for: list[int] = []
    offsets = {(name, 0): 1 for name in cluster.names}

    def committed(brokers: object, listings: Any, silent: object) -> dict[str, Any]:
        asked_for.append(len(listings))
        return {"wide": offsets}

    monkeypatch.setattr(client_view.groups, "list_groups", lambda brokers, silent: [listing("wide"), listing("shares", "share")])
    monkeypatch.setattr(client_view, "committed_offsets", committed)
    monkeypatch.setattr(client_view, "offsets_by_leader", lambda *given, **more: dict.fromkeys(offsets, 3))
    for _ in range(30):
        (lag,) = cluster.view().quick_lags(["wide", "shares"])
        assert (lag.group_id, lag.lag) == ("wide", 2 * TOPICS)
        cluster.now_s += 1
    assert asked_for == [1] * 3, "the lag of 10,000 partitions is read every ten seconds"


def test_console_overview_reads_the_transactions_that_hold_back_partitions_as_seldom_as_the_totals(monkeypatch: Any) -> None:
    cluster = Cluster()
    asked_for: list[list[tuple[str, int]]] = []

    def holders(brokers: object, metadata: object, partitions: list[tuple[str, int]]) -> dict[tuple[str, int], str]:
        asked_for.append(partitions)
        return {partitions[1]: "checkout"}

    stable = {(name, 0): 3 for name in cluster.names}
    ends = stable | {("topic-00000", 0): 5, ("topic-00001", 0): 4, ("topic-00002", 0): 4}
    monkeypatch.setattr(client_view, "offsets_by_leader", lambda *given, committed=False: stable if committed else ends)
    monkeypatch.setattr(client_view, "log_sizes", lambda brokers, nodes: {})
    monkeypatch.setattr(client_view, "holding_ids", holders)
    for _ in range(30):
        totals, ids = cluster.view().totals(2)
        assert ([held.topic for held in totals.held], ids) == (["topic-00000", "topic-00001"], [None, "checkout"])
        cluster.now_s += 1
    assert asked_for == [[("topic-00000", 0), ("topic-00001", 0)]] * 3


def test_console_of_a_broker_reads_the_lag_of_many_partitions_seldom() -> None:
    clock = [0.0]
    kept = KeptReads(lambda: clock[0])
    with closing(ViewedWorld()) as world:
        world.do("topic t partitions=99", "P = init", "produce P t n=5")
        world.do(f"commit_offsets wide {' '.join(f't/{index}=0' for index in range(99))}")

        def lag_at(now_s: float) -> int:
            clock[0] = now_s
            (lag,) = OwnBroker(StillLoop(broker=world.broker), kept).quick_lags(["wide"])
            return lag.lag

        assert lag_at(0) == 5
        world.do("produce P t n=2")
        assert [lag_at(0.099), lag_at(0.101)] == [5, 7], "one group with 99 partitions is read for 0.1 s"
