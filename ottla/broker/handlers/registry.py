"""The registry of a broker's APIs, made from the handlers in this package."""

from __future__ import annotations

from ottla.broker import handlers
from ottla.broker.apis.registry import ApiRegistry, modules_of
from ottla.broker.apis.services import Services

BROKER_APIS: ApiRegistry[Services] = ApiRegistry(modules_of(handlers), offered_from={0: 0})
"""All APIs of a broker. Produce is offered from version 0, because librdkafka compresses nothing for a broker without version 0
(KAFKA-18659). As in Kafka, versions 0 to 2 are refused."""

SERVED: dict[int, str] = {key: name.rpartition(".")[2] for key, name in BROKER_APIS.modules.items()}
"""Module names by API key, ordered by key."""

declaration = BROKER_APIS.declaration
offered_versions = BROKER_APIS.offered_versions
