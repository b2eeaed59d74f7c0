"""The parts of a broker that handlers of APIs, and other modules, may use.

`BrokerServer` implements `Services`, so that handlers need not import `BrokerServer`. Each handler has a Protocol with the services
that it needs; mypy checks that `Services` has these services where the handler's `Declaration` is created.
"""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.config.live_config import LiveConfig
from ottla.broker.coordinators.fencing_log import FencingLog
from ottla.broker.coordinators.groups import Groups
from ottla.broker.coordinators.share_groups import ShareGroupStates
from ottla.broker.coordinators.share_partitions import SharePartitions
from ottla.broker.coordinators.share_states import ShareStates
from ottla.broker.coordinators.transactions import Transactions
from ottla.broker.coordinators.verification import Verification
from ottla.broker.hooks.transaction_history import TransactionListener
from ottla.broker.limits.client_quotas import ClientQuotaEnforcement
from ottla.broker.limits.fetch_sessions import FetchSessions
from ottla.broker.limits.inflating import InflatingMemory
from ottla.broker.limits.memory_budgets import ResponseBudget
from ottla.broker.loop.counters import Counters
from ottla.broker.loop.env import Clock, Randomness, Timers
from ottla.broker.loop.lifecycle import Lifecycle
from ottla.broker.loop.logs import LogLevels
from ottla.broker.loop.stepping import Stepping
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.broker.metadata.placement import Placement
from ottla.broker.metadata.producer_ids import ProducerIds
from ottla.broker.metadata.strays import Strays
from ottla.broker.partitions.barrier import Barrier
from ottla.broker.partitions.housekeeping import Housekeeping
from ottla.broker.partitions.partitions import Partitions
from ottla.storage.log_dir import LogDirectory


class OfferedApis(Protocol):
    """The APIs of a server (`broker.apis.registry.ApiRegistry`)."""

    def offered_versions(self, *, unstable: bool = False) -> list[tuple[int, int, int]]: ...


class Services(Protocol):
    authorizer: RequestAuthorizer
    partitions: Partitions
    groups: Groups
    transactions: Transactions
    share_states: ShareStates
    share_groups: ShareGroupStates
    share_partitions: SharePartitions
    verification: Verification
    cluster: ClusterCommands
    producer_ids: ProducerIds
    cluster_id: str
    directory_id: bytes
    live_config: LiveConfig
    clock: Clock
    timers: Timers
    randomness: Randomness
    stepping: Stepping
    counters: Counters
    lifecycle: Lifecycle
    housekeeping: Housekeeping
    fencing_log: FencingLog
    transaction_listener: TransactionListener | None
    inflating: InflatingMemory
    fetch_sessions: FetchSessions
    response_budget: ResponseBudget
    quotas: ClientQuotaEnforcement
    barrier: Barrier
    log_levels: LogLevels
    directory: LogDirectory
    strays: Strays

    @property
    def placement(self) -> Placement: ...

    @property
    def apis(self) -> OfferedApis: ...

    @property
    def problems(self) -> list[str]:
        """A line of text for each log that is offline or damaged."""
        ...

    @property
    def is_sound(self) -> bool:
        """Whether the log directory accepts writes and no partition is offline."""
        ...

    def advertised(self, listener: str) -> tuple[str, int]:
        """Return the host and port that the broker advertises to clients of a listener."""
        ...
