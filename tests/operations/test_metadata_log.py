"""Feature levels of a new directory, and of a directory that is graduated to Apache Kafka."""

from __future__ import annotations

import pytest

from ottla.operations.metadata_log import DEFAULT_FEATURES, levels_with
from ottla.simulation.broker import SimulatedBroker


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, 2),
        ({"metadata.version": 30}, 1),
        ({"metadata.version": 31}, 2),
        ({"metadata.version": 30, "share.version": 2}, 2),
        ({"metadata.version": 30, "share.version": 0}, 0),
    ],
)
def test_metadata_log_for_an_older_kafka_release_gets_a_supported_share_version(asked: dict[str, int], expected: int) -> None:
    assert levels_with(DEFAULT_FEATURES, asked)["share.version"] == expected
    broker = SimulatedBroker(features=asked).start()
    assert broker.broker.cluster.state.features["share.version"] == expected
    broker.close()
