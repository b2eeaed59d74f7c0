"""Thousands of ACLs in one request are created and deleted in steps, between which other clients are served."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.protocol.errors import Code
from ottla.protocol.messages.create_acls import CreateAclsRequest
from ottla.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.protocol.messages.describe_acls import DescribeAclsRequest
from tests.broker.handlers.authorised_broker import AUTHORIZER, creations, may
from tests.broker.holds import MeasuredBroker
from tests.support.counting import Meter

MOST = 10_000
"""Number of ACLs that one request may create or delete."""
EVERY = DeleteAclsFilter(
    resource_type_filter=1,
    resource_name_filter=None,
    pattern_type_filter=1,
    principal_filter=None,
    host_filter=None,
    operation=1,
    permission_type=1,
)


@pytest.fixture
def broker(meter: Meter) -> Iterator[MeasuredBroker]:
    broker = MeasuredBroker(meter, {"authorizer.class.name": AUTHORIZER, "super.users": "User:ANONYMOUS"})
    broker.start()
    yield broker
    broker.stop()
    assert broker.bugs == 0


def many(count: int, first: int = 0) -> CreateAclsRequest:
    return creations(*(may("TOPIC", f"t{number}", "READ") for number in range(first, first + count)))


def test_request_with_many_acls_blocks_the_event_loop_briefly(broker: MeasuredBroker) -> None:
    count = broker.meter.size(MOST)
    with broker.connect() as client:
        created = broker.measure(lambda: client.call(many(count)))
        assert {result.error_code for result in created.results} == {Code.NONE}
        every = DescribeAclsRequest(
            resource_type_filter=1,
            resource_name_filter=None,
            pattern_type_filter=1,
            principal_filter=None,
            host_filter=None,
            operation=1,
            permission_type=1,
        )
        assert len(broker.measure(lambda: client.call(every)).resources) == count
        deleted = broker.measure(lambda: client.call(DeleteAclsRequest(filters=[EVERY]))).filter_results[0]
        assert (deleted.error_code, len(deleted.matching_acls)) == (Code.NONE, count)
    assert not broker.broker.cluster.state.acls.by_id


def test_create_acls_above_the_limit_of_one_request_creates_none(broker: MeasuredBroker) -> None:
    with broker.connect() as client:
        refused = client.call(many(MOST + 1))
    assert {(result.error_code, result.error_message) for result in refused.results} == {
        (Code.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
    }
    assert not broker.broker.cluster.state.acls.by_id
