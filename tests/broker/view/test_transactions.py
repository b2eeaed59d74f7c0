"""Control API and console list and describe transactional ids like responses to clients do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.broker.view.transactions import described, holding_ids, transaction, transactions
from ottla.client.admin import transactions as client_transactions
from ottla.client.explain import diagnosis
from ottla.protocol.steps import run
from tests.broker.view.viewed_world import ViewedWorld


@pytest.fixture
def viewed() -> Iterator[ViewedWorld]:
    world = ViewedWorld()
    world.do(
        "topic t partitions=2",
        "A = init ongoing",
        "produce A t",
        "produce A t/1",
        "B = init committed",
        "produce B t",
        "commit B",
        "C = init empty",
    )
    yield world
    world.close()


def test_console_lists_and_describes_transactional_ids_like_the_kafka_api(viewed: ViewedWorld) -> None:
    told = viewed.client.transactions()
    listed = run(transactions(viewed.broker))
    assert sorted((one.transactional_id, one.state) for one in listed.rows) == [(one.transactional_id, one.state) for one in told]
    assert {one.transactional_id for one in listed.rows if one.is_open} == {"ongoing"}
    assert listed.missing == []
    ids = [one.transactional_id for one in told]
    found = run(described(viewed.broker, [*ids, "none"]))
    assert [
        (one.transactional_id, one.state, one.producer_id, one.producer_epoch, one.timeout_ms, one.start_ms, one.partitions)
        for one in found
    ] == [
        (one.transactional_id, one.state, one.producer_id, one.epoch, one.timeout_ms, one.start_ms, one.partitions)
        for one in (client_transactions.describe(viewed.client.brokers, transactional_id) for transactional_id in ids)
    ]
    assert found == [transaction(viewed.broker, one) for one in ids]
    (ongoing,) = [one for one in found if one.transactional_id == "ongoing"]
    assert ongoing.partitions == [("t", 0), ("t", 1)]


def test_console_has_no_description_of_an_unknown_transactional_id(viewed: ViewedWorld) -> None:
    assert transaction(viewed.broker, "none") is None


def test_console_of_a_broker_without_transactions_creates_no_transaction_state_topic() -> None:
    world = ViewedWorld()
    assert transaction(world.broker, "none") is None
    assert run(described(world.broker, ["none"])) == []
    assert run(transactions(world.broker)).rows == []
    assert world.broker.cluster.state.topics == {}
    world.close()


def test_console_names_the_transaction_that_holds_back_each_partition(viewed: ViewedWorld) -> None:
    viewed.do("topic u", "D = init later", "produce D t", "produce D u", "produce C u")
    partitions = [("u", 0), ("t", 0), ("t", 1), ("none", 0)]
    assert run(holding_ids(viewed.broker, partitions)) == ["later", "ongoing", "ongoing", None]
    brokers = viewed.client.brokers
    told = diagnosis.holding_ids(brokers, brokers.metadata(None), partitions)
    assert told == {("u", 0): "later", ("t", 0): "ongoing", ("t", 1): "ongoing"}
    viewed.do("abort A", "commit D", "abort C")
    assert run(holding_ids(viewed.broker, partitions)) == [None] * 4
    assert diagnosis.holding_ids(brokers, brokers.metadata(None), partitions) == {}
