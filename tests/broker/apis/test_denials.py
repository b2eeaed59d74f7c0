"""The authorizer keeps the newest denials, with the rule that decided."""

from __future__ import annotations

import pytest

from ottla.broker.apis import denials as limits
from ottla.broker.apis.authorizer_port import ALLOW_ALL
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.simulation.broker import SimulatedBroker
from tests.broker.handlers.authorised_broker import ANONYMOUS, authorised, grant, may


def ask(broker: SimulatedBroker, *topics: str) -> None:
    asked = [ListOffsetsTopic(name=name, partitions=[ListOffsetsPartition()]) for name in topics]
    with broker.connect() as client:
        client.call(ListOffsetsRequest(replica_id=-1, topics=asked))


def test_newest_denial_comes_first_and_has_its_rule() -> None:
    broker = authorised()
    grant(broker, may("TOPIC", "hid", "ALL", permission="DENY", pattern="PREFIXED"))
    ask(broker, "secret", "hidden")
    broker.sleep(1_000)
    ask(broker, "secret")
    newest, oldest = broker.broker.authorizer.denials()
    assert (newest.principal, newest.operation, newest.resource_type, newest.resource) == (ANONYMOUS, "DESCRIBE", "TOPIC", "secret")
    assert (newest.times, newest.denied_by) == (2, None)
    assert newest.last_ms - newest.first_ms >= 1_000
    assert (oldest.resource, oldest.denied_by) == ("hidden", "DENY User:ANONYMOUS ALL TOPIC hid*")
    broker.stop()


def test_number_and_length_of_denials_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_DENIALS", 2)
    broker = authorised()
    ask(broker, "a", "b" * 300, "c")
    assert [denial.resource for denial in broker.broker.authorizer.denials()] == ["c", "b" * 249]
    broker.stop()


def test_broker_without_an_authorizer_denies_nothing() -> None:
    assert ALLOW_ALL.denials() == ()
