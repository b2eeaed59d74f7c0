"""Requests that only Java's Admin client sends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from tests.support.raw_client import RawClient, create
from tests.wire.clients.java import _properties, gateway
from tools.kafka import Unavailable

pytestmark = [pytest.mark.wire, pytest.mark.java]


@pytest.fixture
def admin(bootstrap: str) -> Iterator[Any]:
    try:
        jvm = gateway().jvm
    except Unavailable as missing:
        pytest.skip(f"Java clients: {missing}")
    client = jvm.org.apache.kafka.clients.admin.Admin.create(_properties({"bootstrap.servers": bootstrap}))
    yield client
    client.close()


def test_java_admin_describes_topics_by_id(admin: Any, bootstrap: str, unique: Callable[[str], str]) -> None:
    jvm, name = gateway().jvm, unique("by-id")
    with RawClient(bootstrap) as client:
        create(client, name, 2)
    collection = jvm.org.apache.kafka.common.TopicCollection
    topic_id = admin.describeTopics(collection.ofTopicNames([name])).allTopicNames().get()[name].topicId()
    described = admin.describeTopics(collection.ofTopicIds([topic_id])).allTopicIds().get()[topic_id]
    assert (described.name(), len(described.partitions())) == (name, 2)
    nobodys = jvm.org.apache.kafka.common.Uuid.randomUuid()
    with pytest.raises(Py4JJavaError) as refused:
        admin.describeTopics(collection.ofTopicIds([nobodys])).allTopicIds().get()
    assert "UnknownTopicIdException" in str(refused.value.java_exception)
