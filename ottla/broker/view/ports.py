"""All parts of a broker that the other modules of `view` read. `BrokerServer` implements `Viewed`."""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.loop.env import Clock
from ottla.broker.view import brokers, groups, health, partitions, topics, transactions


class Viewed(brokers.Ports, groups.Ports, health.Ports, partitions.Ports, topics.Ports, transactions.Ports, Protocol):
    authorizer: RequestAuthorizer
    clock: Clock
