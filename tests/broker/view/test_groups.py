"""Control API and console describe groups like responses to clients do: members, positions, lag, and reasons for waiting."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from ottla.broker.view.groups import GroupDetail, group, groups, lags
from ottla.client.admin import groups as client_groups
from ottla.client.admin.positions import total_lag
from ottla.client.explain import diagnosis
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.steps import run
from tests.broker.view.viewed_world import ViewedWorld

GROUPS = {
    "offsets only": ("commit_offsets g t=1 t/1=0",),
    "classic": ("M = join g reads=t assigned=t", "commit_offsets g t=1 member=M"),
    "classic, of another protocol": ("M = join g type=connect",),
    "consumer": ("M = beat g topics=t", "commit_offsets g t=2 member=M v=9"),
    "streams": ("M = stream g reads=t",),
    "share": ("M = share g topics=t", "M = share g", "M = share g"),
    "pending offsets": ("A = init x", "commit_offsets g t=1", "offsets A g t=3"),
    "held by a transaction": ("commit_offsets g t=3", "A = init x", "produce A t", "produce A t"),
}


@pytest.fixture
def viewed() -> Iterator[ViewedWorld]:
    world = ViewedWorld()
    world.do("topic t partitions=2", "P = init", "produce P t n=3")
    yield world
    world.close()


def detail_of(viewed: ViewedWorld, group_id: str) -> GroupDetail:
    return run(group(viewed.broker, group_id))


@pytest.mark.parametrize("kind", GROUPS)
def test_console_describes_a_group_like_the_kafka_api(viewed: ViewedWorld, kind: str) -> None:
    viewed.do(*GROUPS[kind])
    brokers = viewed.client.brokers
    told = diagnosis.waiting_group(brokers, "g")
    detail = detail_of(viewed, "g")
    described = told.group
    assert (detail.type, detail.state, detail.epoch) == (described.group_type, described.state, described.epoch)
    if detail.state not in ("PreparingRebalance", "CompletingRebalance"):
        assert detail.assignor == described.assignor
    assert [msgspec.structs.asdict(one) for one in detail.members] == [asdict(one) for one in described.members]
    assert [msgspec.structs.asdict(one) for one in detail.positions] == [asdict(one) for one in described.positions]
    assert [one.unread for one in detail.positions] == [one.unread for one in described.positions]
    holds = [(hold.held, hold.holder, hold.transaction) for hold in detail.holds]
    assert [(held.topic, held.partition, held.last_stable_offset, held.high_watermark) for held, _, _ in holds] == [
        (held.topic, held.partition, held.last_stable_offset, held.high_watermark) for held in told.held
    ]
    for (_, holder, transaction), held in zip(holds, told.held, strict=True):
        assert held.holder is not None
        assert (holder.producer_id, holder.producer_epoch) == (held.holder.producer_id, held.holder.producer_epoch)
        assert holder.start_offset == held.holder.start_offset
        assert transaction is not None
        assert held.transaction is not None
        assert transaction.transactional_id == held.transaction.transactional_id
    assert bool(holds) == (kind in ("pending offsets", "held by a transaction"))


def test_console_lists_groups_and_lags_like_the_kafka_api(viewed: ViewedWorld) -> None:
    viewed.do("commit_offsets one t=1", "M = beat two topics=t", "commit_offsets three t=3")
    listed = run(groups(viewed.broker))
    assert listed.missing == []
    told = viewed.client.groups()
    assert sorted((one.group_id, one.type, one.state) for one in listed.rows) == [
        (one.group_id, one.group_type, one.state) for one in told
    ]
    ids = [one.group_id for one in told]
    found = run(lags(viewed.broker, [*ids, "none"]))
    assert [one.group_id for one in found] == ids
    totals = [total_lag(client_groups.positions(viewed.client.brokers, listing)) for listing in told]
    assert [(one.lag, one.uncommitted, one.unknown) for one in found] == [(total.known, total.uncommitted, 0) for total in totals]
    assert {one.group_id: (one.lag, one.uncommitted) for one in found if "probe" not in one.group_id} == {
        "one": (2, 0),
        "three": (0, 0),
        "two": (0, 2),
    }


def test_console_omits_committed_offsets_of_a_deleted_topic(viewed: ViewedWorld) -> None:
    viewed.do("topic u", "M = join g reads=u assigned=u", "commit_offsets g t=1 member=M", "delete u")
    assert [(one.topic, one.partition) for one in detail_of(viewed, "g").positions] == [("t", 0)]


def test_console_has_no_log_end_offset_without_a_local_replica(viewed: ViewedWorld) -> None:
    viewed.do("commit_offsets g t=1 t/1=0")
    state = viewed.broker.cluster.state
    partitions = state.topics["t"].partitions
    partitions[1] = msgspec.structs.replace(partitions[1], replicas=(7,), leader=7)
    known = viewed.broker.partitions._by_name.pop(("t", 1))
    ports = cast(
        Any,
        SimpleNamespace(
            cluster=SimpleNamespace(state=SimpleNamespace(topics=state.topics, is_alone=False, node_id=state.node_id)),
            groups=viewed.broker.groups,
            partitions=viewed.broker.partitions,
            transactions=viewed.broker.transactions,
        ),
    )
    positions = run(group(ports, "g")).positions
    assert [(one.partition, one.end, one.lag, one.unread) for one in positions] == [(0, 3, 2, 2), (1, None, None, 0)]
    (lag,) = run(lags(ports, ["g"]))
    assert (lag.lag, lag.uncommitted, lag.unknown) == (2, 0, 1)
    viewed.broker.partitions._by_name["t", 1] = known


def test_console_refuses_an_unknown_group_without_creating_the_offsets_topic(viewed: ViewedWorld) -> None:
    with pytest.raises(KafkaError, match="unknown group 'none'") as refused:
        detail_of(viewed, "none")
    assert refused.value.code is Code.GROUP_ID_NOT_FOUND
    assert run(groups(viewed.broker)).rows == []
    assert run(lags(viewed.broker, ["none"])) == []
    assert set(viewed.broker.cluster.state.topics) == {"t"}
