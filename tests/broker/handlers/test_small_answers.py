"""Requests with small responses are answered while other clients' unread responses use up the response budget."""

from __future__ import annotations

from typing import Any, cast

import pytest

from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from ottla.simulation.broker import SimulatedBroker
from tests.support.raw_client import create

BIG = 200


class Hoarder:
    """A client that does not read its responses."""

    peer = "hoarder"

    def unsent_bytes(self) -> int:
        return 1 << 40

    def sent_bytes(self) -> int:
        return 0

    def go_on(self) -> None: ...

    def abort(self, reason: str) -> None: ...


def offsets(partitions: int | None) -> OffsetFetchRequest:
    topics = None if partitions is None else [OffsetFetchRequestTopics("small", partition_indexes=list(range(partitions)))]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=topics)])


ASKED = [
    pytest.param(MetadataRequest([MetadataRequestTopic(name="small")]), 12, True, id="metadata of a topic"),
    pytest.param(
        MetadataRequest(topics=[MetadataRequestTopic(name="nobody's")], allow_auto_topic_creation=False),
        12,
        True,
        id="metadata of none",
    ),
    pytest.param(MetadataRequest([]), 12, True, id="metadata of the brokers"),
    pytest.param(MetadataRequest([]), 0, False, id="metadata of all topics, as version 0 asks"),
    pytest.param(MetadataRequest(None), 12, False, id="metadata of all topics"),
    pytest.param(MetadataRequest([MetadataRequestTopic(name="big")]), 12, False, id="metadata of a topic of many partitions"),
    pytest.param(offsets(2), 8, True, id="a few offsets"),
    pytest.param(offsets(2_000), 8, False, id="many offsets"),
    pytest.param(offsets(None), 8, False, id="all offsets"),
]


@pytest.mark.parametrize(("request_", "version", "is_small"), ASKED)
def test_only_large_responses_wait_for_memory(request_: Any, version: int, is_small: bool) -> None:
    broker = SimulatedBroker().start()
    client = broker.connect()
    create(cast(Any, client), "small", 2)
    create(cast(Any, client), "big", BIG)
    budget = broker.broker.connections.response_budget
    budget.note(Hoarder(), 1 << 40)
    client.send(request_, version)
    assert (client._transport.next_frame() is not None) == is_small
    assert (budget.waiting_count == 0) == is_small
    broker.close()
