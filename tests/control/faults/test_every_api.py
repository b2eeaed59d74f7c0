"""Each kind of fault on a request of every API, in its oldest and its newest version, on a whole broker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.broker.handlers.registry import SERVED
from ottla.control.faults.api_names import request_type
from ottla.control.faults.registry import Fault, FaultError
from ottla.protocol.messages import APIS
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.describe_acls import DescribeAclsRequest
from ottla.simulation.client import Closed, SimulatedClient
from tests.control.faulty import Faulty

ANSWERED: list[dict[str, Any]] = [
    {"error": "UNKNOWN_SERVER_ERROR"},
    {"error": "THROTTLING_QUOTA_EXCEEDED", "topic": "t"},
    {"error": "CLUSTER_AUTHORIZATION_FAILED", "topic": "*", "partition": 0},
    {"answer": {}},
    {"delay_ms": 30},
    {"delay_answer_ms": 30},
    {"throttle_ms": 30},
    {"bytes_per_second": 10_000},
    {"observe": True},
]
SILENT: list[dict[str, Any]] = [{"drop_answer": True}, {"drop_request": True}]
CLOSED: list[dict[str, Any]] = [{"cut": "before"}, {"cut": "after"}]
DESCRIBE_ACLS = 29
UNANSWERED = {0}
"""Produce has no response, because these requests have acks=0. An error closes the connection."""


@pytest.fixture(scope="module")
def broker() -> Iterator[Faulty]:
    made = Faulty()
    made.do("topic t")
    yield made
    made.close()


def request_of(key: int) -> Any:
    """Return a request with default values. DescribeAcls gets filters for any value, as its defaults close the connection."""
    if key == DESCRIBE_ACLS:
        return DescribeAclsRequest(resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1)
    return request_type(key)()


def heard(client: SimulatedClient, request: Any, version: int, *, is_answered: bool) -> bool:
    """Send the request and then an ApiVersions request. Returns whether ApiVersions is answered."""
    sent = client.send(request, version)
    after = client.send(ApiVersionsRequest(), 0)
    if is_answered:
        client.receive(sent)
    return bool(client.receive(after).api_keys)


@pytest.mark.parametrize("key", sorted(SERVED), ids=lambda key: APIS[key].name)
def test_every_kafka_api_supports_faults(broker: Faulty, key: int) -> None:
    entry, faults = APIS[key], broker.faults
    for version in {entry.min_version, entry.max_version}:
        for given in (*ANSWERED, *SILENT, *CLOSED):
            try:
                fault = Fault(api=key, **given, **({"times": 1} if "times" not in given else {}))
            except FaultError:
                assert {"topic", "partition"} & set(given)
                continue
            added = faults.add(fault)
            with broker.broker.connect() as client:
                refused = key in UNANSWERED and "error" in given and "topic" not in given
                if given in CLOSED or refused:
                    with pytest.raises(Closed):
                        heard(client, request_of(key), version, is_answered=key not in UNANSWERED)
                else:
                    is_answered = given in ANSWERED and (key not in UNANSWERED or "answer" in given)
                    assert heard(client, request_of(key), version, is_answered=is_answered)
            assert added.hits == (0 if {"topic", "partition"} & set(given) and added.matched == 0 else 1), given
            added.remove()
    assert broker.broker.broker.unexpected_errors == 0
