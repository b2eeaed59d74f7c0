"""The machines of a simulation: one broker that is its own controller, or several brokers and their controller."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ottla.broker.broker import BrokerServer
from ottla.broker.config.settings import BrokerConfig
from ottla.broker.controller.server import ControllerServer
from ottla.broker.loop.env import Env
from ottla.brokers.plan import CLIENT_LISTENER, CONTROLLER_ID, CONTROLLER_LISTENER, CONTROLLER_NAME, defaults, format_directory
from ottla.protocol.topic_partition import TopicPartition
from ottla.simulation.links import Links
from ottla.simulation.node import DATA_DIR, PORT, Node
from ottla.simulation.plan import Plan
from ottla.simulation.scheduler import Scheduler

CONTROLLER_PORT = 9093
SETTINGS = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "400",
    "log.flush.offset.checkpoint.interval.ms": "1500",
    "transaction.state.log.num.partitions": "2",
    "offsets.topic.num.partitions": "2",
}
MEMBER_SETTINGS = {
    "broker.heartbeat.interval.ms": "200",
    "broker.session.timeout.ms": "1200",
    "replica.lag.time.max.ms": "1500",
    "replica.fetch.wait.max.ms": "300",
    "replica.high.watermark.checkpoint.interval.ms": "700",
    "initial.broker.registration.timeout.ms": "20000",
    "leader.imbalance.check.interval.seconds": "2",
}
"""Settings of several brokers. Timeouts are shorter than Kafka's defaults, because faults last for seconds."""

Gone = Callable[[Node[Any]], None]
"""A function that is called with the node whose server has crashed, stopped or started."""


def _new_controller(env: Env, config: BrokerConfig, features: Mapping[str, int]) -> ControllerServer:
    return ControllerServer(env, config, features)


class Machines:
    """The nodes of a simulation. ``brokers`` are ordered by id. A single broker is its own controller: ``controller`` is None."""

    def __init__(
        self,
        plan: Plan,
        scheduler: Scheduler,
        links: Links,
        rng: Callable[[str], random.Random],
        *,
        on_crash: Gone,
        on_served: Gone,
    ) -> None:
        self._plan = plan
        self._scheduler = scheduler
        self._links = links
        self._rng = rng
        self._on_crash = on_crash
        self._on_served = on_served
        self.controller: Node[ControllerServer] | None = None
        shared = SETTINGS | {"ottla.durability": plan.durability}
        if plan.brokers == 1:
            self.brokers = [self._broker(0, shared)]
            return
        shared |= {
            **defaults(plan.brokers),
            **MEMBER_SETTINGS,
            "controller.listener.names": CONTROLLER_LISTENER,
            "controller.quorum.voters": f"{CONTROLLER_ID}@{CONTROLLER_NAME}:{CONTROLLER_PORT}",
        }
        member = {"process.roles": "broker", "inter.broker.listener.name": CLIENT_LISTENER}
        self.brokers = [self._broker(broker_id, shared | member) for broker_id in range(1, plan.brokers + 1)]
        listener = f"{CONTROLLER_LISTENER}://{CONTROLLER_NAME}:{CONTROLLER_PORT}"
        own = {"process.roles": "controller", "listeners": listener}
        self.controller = self._node(CONTROLLER_ID, CONTROLLER_NAME, shared | own, _new_controller)
        self.controller.skew_ms = -plan.skew_ms
        self._format()

    def _broker(self, broker_id: int, settings: dict[str, str]) -> Node[BrokerServer]:
        host = f"broker-{broker_id}"
        listener = {"listeners": f"{CLIENT_LISTENER}://{host}:{PORT}"}
        node = self._node(broker_id, host, settings | listener, BrokerServer)
        node.skew_ms = self._plan.skew_ms * max(1, broker_id)
        return node

    def _node(self, node_id: int, host: str, settings: dict[str, str], make_server: Any) -> Node[Any]:
        node = Node[Any](
            node_id=node_id,
            host=host,
            scheduler=self._scheduler,
            links=self._links,
            rng=self._rng(host),
            settings=settings,
            features={"transaction.version": self._plan.transaction_version},
            on_crash=self._on_crash,
            on_served=self._on_served,
            make_server=make_server,
        )
        node.loses_power = self._plan.durability == "power"
        return node

    def in_sync(self, where: TopicPartition) -> Sequence[int]:
        """Return the ids of a partition's in-sync brokers as the controller knows them, or none while the controller is down."""
        server = None if self.controller is None else self.controller.server
        topic = None if server is None or self.controller is None else server.controller.state.topics.get(where[0])
        return () if topic is None else topic.partitions[where[1]].isr

    def _format(self) -> None:
        rng = self._rng("identities")
        cluster_id: str | None = None
        for node in self:
            cluster_id = format_directory(node.disk.fs, DATA_DIR, node.node_id, lambda: rng.randbytes(16), cluster_id)

    def __iter__(self) -> Iterator[Node[Any]]:
        """Yield all nodes, the controller first, because starting brokers wait for the controller."""
        if self.controller is not None:
            yield self.controller
        yield from self.brokers
