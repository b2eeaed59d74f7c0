"""The parts of a controller that its handlers may use. `ControllerServer` implements `ControllerServices`."""

from __future__ import annotations

from typing import Protocol, TypeAlias

from ottla.broker.apis.api import Declared, RequestContext
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.apis.services import OfferedApis
from ottla.broker.config.live_config import LiveConfig
from ottla.broker.controller.metadata import ControllerMetadata
from ottla.broker.limits.client_quotas import ClientQuotaEnforcement
from ottla.broker.limits.memory_budgets import ResponseBudget
from ottla.broker.loop.counters import Counters
from ottla.broker.loop.env import Clock, Randomness, Timers
from ottla.broker.loop.lifecycle import Lifecycle
from ottla.broker.loop.logs import LogLevels
from ottla.broker.loop.stepping import Stepping
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.broker.metadata.placement import Placement
from ottla.broker.network.dispatch import Dispatcher


class ControllerServices(Protocol):
    authorizer: RequestAuthorizer
    controller: ControllerMetadata
    cluster: ClusterCommands
    log_levels: LogLevels
    cluster_id: str
    directory_id: bytes
    live_config: LiveConfig
    clock: Clock
    timers: Timers
    randomness: Randomness
    stepping: Stepping
    counters: Counters
    lifecycle: Lifecycle
    response_budget: ResponseBudget
    quotas: ClientQuotaEnforcement

    @property
    def placement(self) -> Placement: ...

    @property
    def apis(self) -> OfferedApis: ...

    def advertised(self, listener: str) -> tuple[str, int]:
        """Return the host and port that the controller advertises to brokers."""
        ...

    def dispatcher(self, client_host: str, context: RequestContext) -> Dispatcher:
        """A dispatcher for the requests of a client at ``client_host`` that a broker forwards in envelopes."""
        ...


ControllerDeclaration: TypeAlias = Declared[ControllerServices]
