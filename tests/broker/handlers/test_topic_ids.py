"""Metadata for topics that requests identify by topic id, compared with Apache Kafka's responses."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.primitives import NO_UUID
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.client import SimulatedClient
from tests.support.raw_client import create

OTHER = b"\2" * 16


@pytest.fixture
def client() -> Iterator[SimulatedClient]:
    broker = SimulatedBroker().start()
    with broker.connect() as connected:
        create(connected, "t")
        yield connected
    broker.close()
    assert broker.bugs == 0


def topic_id(client: SimulatedClient) -> bytes:
    topic_id: bytes = client.call(MetadataRequest([MetadataRequestTopic(name="t")])).topics[0].topic_id
    return topic_id


def asked(client: SimulatedClient, *topics: tuple[bytes, str | None], version: int = 13) -> list[tuple[int, str | None, bytes]]:
    request = MetadataRequest(
        topics=[MetadataRequestTopic(topic_id=uuid, name=name) for uuid, name in topics], allow_auto_topic_creation=False
    )
    return [(t.error_code, t.name, t.topic_id) for t in client.call(request, version).topics]


@pytest.mark.parametrize("name", ["", None, "another", "t"])
def test_metadata_request_with_a_topic_id_ignores_the_topic_name(client: SimulatedClient, name: str | None) -> None:
    """Java's Admin sends an empty name with the id, and fails if the response is about a topic with the name ""."""
    known = topic_id(client)
    assert asked(client, (known, name), (known, name)) == [(0, "t", known)]
    assert asked(client, (OTHER, name)) == [(100, None, OTHER)]
    assert asked(client, (known, name), (NO_UUID, "other")) == [(0, "t", known)]


@pytest.mark.parametrize("version", [10, 11])
def test_topic_ids_in_older_metadata_versions_are_refused(client: SimulatedClient, version: int) -> None:
    known = topic_id(client)
    assert asked(client, (known, "t"), version=version)[0][0] == 42
    assert asked(client, (NO_UUID, None), version=version)[0][0] == 42


def test_metadata_answers_a_duplicate_topic_once(client: SimulatedClient) -> None:
    assert asked(client, (NO_UUID, "t"), (NO_UUID, "t")) == [(0, "t", topic_id(client))]
