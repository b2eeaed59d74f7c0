from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.handlers.registry import BROKER_APIS
from ottla.broker.limits.client_quotas import ClientQuotaEnforcement
from ottla.broker.loop.counters import Counters
from ottla.broker.loop.lifecycle import Lifecycle
from ottla.broker.loop.stepping import Stepping
from ottla.broker.network.connection import Connection
from ottla.broker.network.listener import Connections
from ottla.broker.partitions.barrier import Barrier
from ottla.coordinator.metadata.client_quotas import ClientQuotas
from tests.broker.network.connected import Transport, limits
from tests.support.world import simulated_env


@pytest.fixture
def broker() -> Any:
    settings = limits(socket_request_max_bytes=50_000_000, unstable_api_versions_enable=False)
    env = simulated_env()
    live_config: Any = SimpleNamespace(settings=settings)
    return SimpleNamespace(
        env=env,
        clock=env,
        timers=env,
        settings=settings,
        live_config=live_config,
        stepping=Stepping(env, lambda: pytest.fail("an unexpected error was reported")),
        connections=Connections(env, settings, 1 << 20),
        lifecycle=Lifecycle(env),
        counters=Counters(),
        barrier=Barrier(None),
        interception=None,
        transaction_listener=None,
        quotas=ClientQuotaEnforcement(env, live_config, ClientQuotas()),
        apis=BROKER_APIS,
        services=None,
        directory_id=b"d" * 16,
    )


@pytest.fixture
def connected(broker: Any) -> tuple[Connection, Transport]:
    connection, transport = Connection(broker, "PLAINTEXT"), Transport()
    connection.connection_made(transport)  # type: ignore[arg-type]
    return connection, transport
