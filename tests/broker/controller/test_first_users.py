"""SCRAM users that a controller creates before brokers connect, because brokers may authenticate as these users."""

from __future__ import annotations

from typing import Any, cast

from ottla.broker.config.first_user import FirstUser
from ottla.broker.config.settings import BrokerConfig
from ottla.broker.controller.server import ControllerServer
from ottla.simulation.controller import SimulatedController
from ottla.simulation.coroutines import run


def test_configured_scram_users_exist_before_the_first_broker_registers() -> None:
    world = SimulatedController().start()
    world.stop()
    config = BrokerConfig(world._settings)
    server = ControllerServer(cast(Any, world.env), config, first_users=[FirstUser("admin", "hush")])
    run(server.start(), world.env)
    assert set(server.cluster_state.credentials.by_user["admin"]) == {1, 2}
    run(server.stop(), world.env)
