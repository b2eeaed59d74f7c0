"""Topologies get the same partition counts, missing topics and errors as from Apache Kafka's InternalTopicManager (4.4.0)."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.coordinator.group.streams.configuration import InternalTopic, configure
from ottla.coordinator.group.streams.topology import topology_of
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.streams_group_topology_value import CopartitionGroup, StreamsGroupTopologyValue, Subtopology, TopicInfo
from tests.coordinator.group_world import FakeTopics
from tests.coordinator.streams.kafka import questions


def subtopology(asked: dict[str, Any]) -> Subtopology:
    return Subtopology(
        subtopology_id=asked["id"],
        source_topics=asked["sources"],
        repartition_sink_topics=asked["sinks"],
        repartition_source_topics=[TopicInfo(name=name, partitions=count) for name, count in asked["repartition"]],
        state_changelog_topics=[TopicInfo(name=name, partitions=count) for name, count in asked["changelogs"]],
        copartition_groups=[CopartitionGroup(source_topics=s, repartition_source_topics=r) for s, r in asked["copartition"]],
    )


def counts(topics: dict[str, InternalTopic]) -> dict[str, int]:
    return {name: topic.partition_count for name, topic in topics.items()}


def answered(question: questions.Question) -> dict[str, Any]:
    value = StreamsGroupTopologyValue(epoch=1, subtopologies=[subtopology(one) for one in question["subtopologies"]])
    try:
        configured = configure(topology_of(value), FakeTopics(question["topics"]))
    except KafkaError as error:
        assert error.code is Code.STREAMS_INVALID_TOPOLOGY
        return {"error": "StreamsInvalidTopologyException"}
    subtopologies = {
        i: {"tasks": one.task_count, "repartition": counts(one.repartition_sources), "changelogs": counts(one.changelogs)}
        for i, one in (configured.subtopologies or {}).items()
    }
    status = None if configured.problem is None else configured.problem.status_code
    return {"status": status, "subtopologies": subtopologies, "missing": counts(configured.missing_topics)}


@pytest.mark.parametrize("tenth", range(10))
def test_streams_topology_configurations_equal_those_of_kafka(tenth: int) -> None:
    for question, answer in questions.read("configure")[tenth::10]:
        assert answered(question) == answer, question


def test_recorded_streams_topologies_cover_each_status_and_an_error() -> None:
    answers = [answer for _, answer in questions.read("configure")]
    assert {answer.get("status", "error") for answer in answers} == {None, 1, 2, 3, "error"}
