"""The order of partitions in a fetch response, compared with Apache Kafka's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.broker.handlers.fetch import Fetch
from ottla.broker.limits.fetch_sessions import RequestedPartition
from ottla.protocol.errors import Code
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.primitives import NO_UUID
from ottla.protocol.topic_partition import TopicPartition
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.client import SimulatedClient
from tests.support.raw_client import create


class Fetching:
    """A client that fetches partitions such as ("a", 0) with any version of Fetch. The topic ``x`` does not exist."""

    def __init__(self, client: SimulatedClient, version: int) -> None:
        self._client = client
        self._version = version
        topics = client.call(MetadataRequest([MetadataRequestTopic(name=n) for n in "ab"])).topics
        self._ids = {**{t.name: t.topic_id for t in topics}, "x": b"\1" * 16}
        self.session_id = 0

    def _naming(self, name: str) -> dict[str, object]:
        return {"topic_id": self._ids[name]} if self._version >= 13 else {"topic": name}

    def ask(self, *partitions: TopicPartition, epoch: int = -1, forget: tuple[TopicPartition, ...] = ()) -> str:
        request = FetchRequest(max_wait_ms=0, min_bytes=0, session_id=self.session_id, session_epoch=epoch)
        for name, index in partitions:
            part = FetchPartition(partition=index, current_leader_epoch=-1, fetch_offset=0, partition_max_bytes=1_000)
            request.topics.append(FetchTopic(**self._naming(name), partitions=[part]))  # type: ignore[arg-type]
        for name, index in forget:
            request.forgotten_topics_data.append(ForgottenTopic(**self._naming(name), partitions=[index]))  # type: ignore[arg-type]
        answer = self._client.call(request, self._version)
        self.session_id = answer.session_id
        names = {topic_id: name for name, topic_id in self._ids.items()} | {NO_UUID: ""}
        return " ".join(
            (t.topic or names[t.topic_id]) + ",".join(str(p.partition_index) for p in t.partitions) for t in answer.responses
        )


@pytest.fixture(params=[11, 12, 13, 16])
def fetching(request: pytest.FixtureRequest) -> Iterator[Fetching]:
    broker = SimulatedBroker({"auto.create.topics.enable": "false"}).start()
    with broker.connect() as client:
        for name in "ab":
            create(client, name, 3)
        yield Fetching(client, request.param)
    broker.close()
    assert broker.bugs == 0


def test_fetch_response_has_partitions_in_the_order_of_the_request(fetching: Fetching) -> None:
    assert fetching.ask(("a", 0), ("b", 0), ("a", 1), ("b", 1)) == "a0 b0 a1 b1"
    assert fetching.ask(("b", 2), ("b", 0), ("a", 1)) == "b2,0 a1"
    assert fetching.ask(("a", 0), ("b", 0), ("a", 0)) == "a0 b0"


def test_fetch_response_has_unknown_partitions_last(fetching: Fetching) -> None:
    assert fetching.ask(("x", 0), ("a", 7), ("a", 0), ("b", 0), ("a", 1)) == "a0 b0 a1 x0 a7"
    assert fetching.ask(("x", 0), ("x", 1), ("a", 0)) == "a0 x0,1"


def test_fetch_session_keeps_the_partition_order(fetching: Fetching) -> None:
    assert fetching.ask(("b", 0), ("x", 0), ("a", 1), ("b", 1), epoch=0) == "b0 a1 b1 x0"
    assert fetching.ask(epoch=1) == "x0"
    assert fetching.ask(("a", 2), ("b", 2), ("a", 0), epoch=2) == "a2 b2 a0 x0"
    assert fetching.ask(("a", 2), epoch=3, forget=(("b", 0),)) == "x0"


def test_topic_deleted_during_a_large_fetch_is_an_error_in_its_response(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = SimulatedBroker({"auto.create.topics.enable": "false"}).start()
    read = Fetch._read

    def reading(self: Fetch, asked: RequestedPartition, limit_bytes: int) -> Any:
        answer = read(self, asked, limit_bytes)
        if asked.key[1:] == ("b", 299) and "a" in broker.broker.cluster.state.topics:
            broker.broker.cluster.delete_topic("a")
        return answer

    monkeypatch.setattr(Fetch, "_read", reading)
    with broker.connect() as client:
        create(client, "a", 1)  # type: ignore[arg-type]
        create(client, "b", 300)  # type: ignore[arg-type]
        request = FetchRequest(max_wait_ms=30_000, min_bytes=1, session_epoch=-1)
        for name, count in (("a", 1), ("b", 300)):
            parts = [
                FetchPartition(partition=index, current_leader_epoch=-1, fetch_offset=0, partition_max_bytes=1_000)
                for index in range(count)
            ]
            request.topics.append(FetchTopic(name, partitions=parts))
        began_ms = broker.now_ms()
        answer = client.call(request, 12)
        codes = {(t.topic, p.error_code) for t in answer.responses for p in t.partitions}
        assert codes == {("a", Code.UNKNOWN_TOPIC_OR_PARTITION), ("b", 0)}
        assert broker.now_ms() - began_ms < 1_000
    broker.close()
    assert broker.bugs == 0
