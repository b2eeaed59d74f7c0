"""Brokers and controllers remove expired delegation tokens, and know the remaining tokens after a restart."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from ottla.broker.broker import BrokerServer
from ottla.broker.controller.server import ControllerServer
from ottla.coordinator.metadata import delegation_tokens
from ottla.security.principal import KafkaPrincipal
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.controller import SimulatedController

ALICE = KafkaPrincipal("User", "alice")
SETTINGS = {"delegation.token.secret.key": "key", "delegation.token.expiry.check.interval.ms": "1000"}


def server(node: SimulatedBroker | SimulatedController) -> BrokerServer | ControllerServer:
    return node.broker if isinstance(node, SimulatedBroker) else node.server


@pytest.mark.parametrize("kind", [SimulatedBroker, SimulatedController])
def test_expired_delegation_tokens_are_removed_as_time_passes(kind: type[SimulatedBroker] | type[SimulatedController]) -> None:
    node = kind(SETTINGS).start()

    def create(lifetime_ms: int) -> str:
        return server(node).cluster.create_token(ALICE, ALICE, [], lifetime_ms, node.env.now_ms()).token_id

    create(500)
    kept = create(60_000)
    node.sleep(400)
    tokens = server(node).cluster_state.tokens
    assert len(tokens.by_id) == 2
    node.sleep(1_000)
    assert list(tokens.by_id) == [kept]
    node.restart()
    assert list(server(node).cluster_state.tokens.by_id) == [kept]
    node.sleep(61_000)
    assert not server(node).cluster_state.tokens.by_id
    node.close()
    assert node.bugs == 0


@pytest.mark.parametrize("kind", [SimulatedBroker, SimulatedController])
def test_more_expired_delegation_tokens_than_one_pass_removes_are_removed_within_seconds(
    kind: type[SimulatedBroker] | type[SimulatedController], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delegation_tokens, "SWEPT_AT_ONCE", 2)
    node = kind({**SETTINGS, "delegation.token.expiry.check.interval.ms": "3600000"}).start()
    for _ in range(7):
        server(node).cluster.create_token(ALICE, ALICE, [], 500, node.env.now_ms())
    tokens = server(node).cluster_state.tokens
    node.sleep(3_599_000)
    assert len(tokens.by_id) == 7
    node.sleep(2_000)
    assert not tokens.by_id
    # Expired tokens are next removed after another interval.
    server(node).cluster.create_token(ALICE, ALICE, [], 500, node.env.now_ms())
    node.sleep(3_590_000)
    assert len(tokens.by_id) == 1
    node.sleep(20_000)
    assert not tokens.by_id
    node.close()
    assert node.bugs == 0


@pytest.mark.parametrize("kind", [SimulatedBroker, SimulatedController])
def test_bug_of_the_removal_of_expired_tokens_is_logged_without_its_text(
    kind: type[SimulatedBroker] | type[SimulatedController], monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "".join(("hu", "sh"))  # Not a literal, because a traceback shows this line.

    def fail(self: object, now_ms: int) -> bool:
        raise KeyError(secret)

    node = kind(SETTINGS).start()
    monkeypatch.setattr(type(server(node).cluster), "sweep_tokens", fail)
    with capture_logs() as lines:
        node.sleep(1_000)
    (line,) = [line for line in lines if "exception" in line]
    assert "test_delegation_tokens.py" in line["exception"]
    assert secret not in str(line)
    node.close()
