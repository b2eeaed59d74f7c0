"""The parts of a broker that handlers of APIs, and others, may use.

`BrokerServer` implements `Services`, and no module below it imports `BrokerServer`. A handler names the services that it needs in a
Protocol of its own. mypy checks that `Services` has them where the handler is put into its `Declaration`, and that `BrokerServer`
implements `Services` where a connection is made.
"""

from __future__ import annotations

from typing import Protocol

from ottla.broker.budgets import ResponseBudget
from ottla.broker.cluster import ClusterCommands
from ottla.broker.counters import Counters
from ottla.broker.env import Clock, Randomness, Timers
from ottla.broker.fetch_sessions import FetchSessions
from ottla.broker.gate import Gate
from ottla.broker.groups import Groups
from ottla.broker.housekeeping import Housekeeping
from ottla.broker.inflating import InflatingMemory
from ottla.broker.lifecycle import Lifecycle
from ottla.broker.live_config import LiveConfig
from ottla.broker.logs import LogLevels
from ottla.broker.partitions import Partitions
from ottla.broker.placement import Placement
from ottla.broker.producer_ids import ProducerIds
from ottla.broker.share_groups import ShareGroupStates
from ottla.broker.share_partitions import SharePartitions
from ottla.broker.share_states import ShareStates
from ottla.broker.stepping import Stepping
from ottla.broker.takeovers import Takeovers
from ottla.broker.transaction_history import TransactionListener
from ottla.broker.transactions import Transactions
from ottla.broker.verification import Verification
from ottla.storage.log_dir import LogDirectory


class OfferedApis(Protocol):
    """The APIs of a server (`broker.registry.Registry`)."""

    def offered_versions(self, *, unstable: bool = False) -> list[tuple[int, int, int]]: ...


class Services(Protocol):
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
    takeovers: Takeovers
    transaction_listener: TransactionListener | None
    inflating: InflatingMemory
    fetch_sessions: FetchSessions
    response_budget: ResponseBudget
    gate: Gate
    log_levels: LogLevels
    directory: LogDirectory

    @property
    def placement(self) -> Placement: ...

    @property
    def apis(self) -> OfferedApis: ...

    @property
    def problems(self) -> list[str]:
        """A line for each log that is offline or damaged."""
        ...

    @property
    def is_sound(self) -> bool:
        """Whether the log directory accepts writes and no partition is offline."""
        ...

    def advertised(self, listener: str) -> tuple[str, int]:
        """The host and port that the broker advertises to clients of a listener."""
        ...
