"""Users of ``ottla serve --user`` are created with credentials for all mechanisms, unless they exist."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.config.definitions import ConfigError
from ottla.broker.config.first_user import FirstUser
from ottla.broker.handlers.support.first_users import create_first_users
from ottla.coordinator.metadata.cluster import ClusterState
from ottla.simulation.broker import SimulatedBroker
from tests.security.sasl.conversations import ScramClient


@pytest.fixture
def broker() -> Any:
    return SimulatedBroker().start().broker


def authenticates(broker: Any, mechanism: str, password: str) -> bool:
    from ottla.security.sasl.exchange import SaslFailed
    from ottla.security.sasl.scram import NUMBERS, ScramMechanism

    made = ScramMechanism(mechanism, lambda user: broker.cluster_state.credentials.by_user[user][NUMBERS[mechanism]], lambda: b"s")
    exchange, client = made.exchange("nonce"), ScramClient(mechanism, "alice", password)
    try:
        exchange.respond(client.final(exchange.respond(client.first(), 0)), 0)
    except SaslFailed:
        return False
    return True


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_user_created_at_the_first_start_can_authenticate_by_every_scram_mechanism(broker: Any, mechanism: str) -> None:
    create_first_users(broker, [FirstUser("alice", "hush")])
    assert authenticates(broker, mechanism, "hush")
    assert not authenticates(broker, mechanism, "wrong")


def test_existing_scram_user_keeps_its_password_when_the_start_configures_another_password(broker: Any) -> None:
    create_first_users(broker, [FirstUser("alice", "hush"), FirstUser("alice", "other")])
    assert authenticates(broker, "SCRAM-SHA-256", "hush")


def test_error_for_a_scram_user_that_cannot_be_created_hides_the_password(broker: Any) -> None:
    with pytest.raises(ConfigError, match=r"--user x+: a user name has at most 1000 characters") as caught:
        create_first_users(broker, [FirstUser("x" * 1_001, "hush")])
    assert "hush" not in str(caught.value)


def test_broker_with_a_separate_controller_creates_no_scram_users() -> None:
    ports: Any = SimpleNamespace(cluster=SimpleNamespace(state=ClusterState(1, is_member=True)))
    with pytest.raises(ConfigError, match="--user alice: only the controller creates users"):
        create_first_users(ports, [FirstUser("alice", "hush")])


def test_repr_of_a_scram_user_hides_the_password() -> None:
    assert "hush" not in repr(FirstUser("alice", "hush"))


def test_scram_salts_have_the_format_of_kafkas_salts(broker: Any) -> None:
    create_first_users(broker, [FirstUser("alice", "hush")])
    salts = {credential.salt for credential in broker.cluster_state.credentials.by_user["alice"].values()}
    assert len(salts) == 2 and all(re.fullmatch(rb"[0-9a-z]{20,26}", salt) for salt in salts)
