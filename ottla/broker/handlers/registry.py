"""The APIs of a broker: those of the handlers in this package."""

from __future__ import annotations

from ottla.broker import handlers
from ottla.broker.apis.registry import ApiRegistry, modules_of
from ottla.broker.apis.services import Services

BROKER_APIS: ApiRegistry[Services] = ApiRegistry(modules_of(handlers), offered_from={0: 0})
"""Produce is offered from version 0, because librdkafka does not compress for a broker that does not offer it (KAFKA-18659). As in
Kafka, versions 0 to 2 are refused."""

SERVED: dict[int, str] = {key: name.rpartition(".")[2] for key, name in BROKER_APIS.modules.items()}
"""The module's own name by API key, in the order of the keys."""

declaration = BROKER_APIS.declaration
offered_versions = BROKER_APIS.offered_versions
