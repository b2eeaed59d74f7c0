"""``max.connections`` and ``max.connection.creation.rate``, also of single listeners (KIP-402, KIP-612).

Connections beyond the rate are read later, like connections that wait for Kafka's acceptor.
"""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from ottla.broker.config.definitions import LISTENER_LIMITS, MAX_CONNECTIONS, ConfigError
from ottla.broker.config.live_config import LiveConfig
from ottla.broker.config.settings import BrokerConfig
from ottla.broker.network.connection import Connection
from ottla.broker.network.listener import ListenerLimits
from ottla.protocol.messages.heartbeat import HeartbeatResponse
from tests.broker.network.connected import Transport, beats, feed, serve

RATE = "max.connection.creation.rate"
FREE = 10
"""Number of immediate connections that a limit of one per second allows in a new window."""


def limited(broker: Any, *listeners: str, protected: str | None = None, **given: int) -> LiveConfig:
    config = BrokerConfig({name.replace("__", ".").replace("rate", RATE): str(rate) for name, rate in given.items()})
    live_config = LiveConfig(config)
    broker.connections.of_listeners = ListenerLimits(broker.env, config, listeners, protected)
    live_config.parts.append(broker.connections.of_listeners)
    broker.connections.limit = broker.connections._limit_per_peer = 1_000
    return live_config


def connect(broker: Any, listener: str = "IN") -> tuple[Connection, Transport]:
    connection, transport = Connection(broker, listener), Transport()
    connection.connection_made(transport)  # type: ignore[arg-type]
    return connection, transport


def are_read(broker: Any, count: int, listener: str = "IN") -> list[bool]:
    return [not connect(broker, listener)[1].is_paused for _ in range(count)]


def test_connection_beyond_the_creation_rate_is_read_after_kafkas_delay(broker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, lambda ports, request, context: HeartbeatResponse(request.generation_id))
    limited(broker, "IN", rate=1)
    assert all(are_read(broker, FREE))
    (connection, first), (_, second) = connect(broker), connect(broker)
    broker.env.scheduler.advance(999)
    assert first.is_paused
    broker.env.scheduler.advance(1)
    assert (first.is_paused, first.closed, second.is_paused) == (False, False, True)
    feed(connection, beats(1), iter(lambda: 1 << 16, None))
    assert len(first.answers()) == 1
    broker.env.scheduler.advance(1_000)
    assert not second.is_paused and not second.closed


def test_listener_may_have_a_lower_creation_rate_than_the_broker(broker: Any) -> None:
    limited(broker, "IN", "OUT", listener__name__in__rate=1)
    assert are_read(broker, FREE + 1) == [True] * FREE + [False]
    assert all(are_read(broker, 50, "OUT"))


def test_inter_broker_listener_is_not_limited_by_connections_of_other_listeners(broker: Any) -> None:
    limited(broker, "IN", "OUT", protected="OUT", rate=1, listener__name__out__rate=1_000)
    assert are_read(broker, FREE + 1) == [True] * FREE + [False]
    assert all(are_read(broker, 50, "OUT"))


def test_changed_connection_creation_rate_takes_effect_while_the_broker_runs(broker: Any) -> None:
    live_config = limited(broker, "IN")
    assert all(are_read(broker, 50))
    of_listener = f"listener.name.in.{RATE}"
    live_config.set_dynamic({of_listener: "1"}, [of_listener])
    assert are_read(broker, FREE + 1) == [True] * FREE + [False]
    live_config.set_dynamic({RATE: "1", of_listener: "1000"})
    assert not are_read(broker, 12)[-1]
    live_config.set_dynamic({})
    assert all(are_read(broker, 50))


@pytest.mark.parametrize("text", ["-1", "many", ""])
def test_connection_creation_rate_that_is_not_a_number_is_refused(broker: Any, text: str) -> None:
    dynamic = {f"listener.name.in.{RATE}": text}
    with pytest.raises(ConfigError, match=r"max\.connection\.creation\.rate"):
        limited(broker, "IN").check(dynamic, dynamic)


def test_local_connections_are_not_limited_by_the_creation_rate(broker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    limited(broker, "IN", rate=0)
    monkeypatch.setattr(Transport, "get_extra_info", lambda self, name: None)
    assert all(are_read(broker, 50))


def test_broker_without_a_connection_creation_rate_measures_no_connections(broker: Any) -> None:
    limited(broker, "IN", rate=2**31 - 1)
    assert broker.connections.of_listeners._limits is None


def test_connection_limit_of_a_listener_may_be_below_that_of_the_broker(broker: Any) -> None:
    key = f"listener.name.in.{MAX_CONNECTIONS}"
    live_config = limited(broker, "IN", "OUT")
    live_config.set_dynamic({key: "2"}, [key])
    (first, _), *_ = [connect(broker) for _ in range(2)]
    assert [connect(broker, name)[1].closed for name in ("IN", "OUT")] == [True, False]
    first.connection_lost(None)
    assert [connect(broker)[1].closed for _ in range(2)] == [False, True]
    live_config.set_dynamic({}, [key])
    assert not connect(broker)[1].closed


def test_connection_limit_of_a_listener_cannot_be_set_to_zero(broker: Any) -> None:
    live_config = limited(broker, "IN")
    for name in LISTENER_LIMITS:
        dynamic = {f"listener.name.in.{name}": "0"}
        with pytest.raises(ConfigError, match=f"Invalid {name} 0"):
            live_config.check(dynamic, dynamic)
        with capture_logs() as logs:
            live_config.set_dynamic(dynamic)
        assert logs == [{"event": "dynamic_config_ignored", "reason": f"Invalid {name} 0", "log_level": "error"}]
    assert not connect(broker)[1].closed
