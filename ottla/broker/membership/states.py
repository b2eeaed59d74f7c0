"""The states of a broker in its cluster (org.apache.kafka.metadata.BrokerState), and the allowed transitions."""

from __future__ import annotations

from enum import IntEnum


class BrokerState(IntEnum):
    """State of a broker, with the numbers of Kafka's metric BrokerState."""

    NOT_RUNNING = 0
    STARTING = 1
    """The broker registers, and reads the cluster's metadata until it has caught up."""
    RECOVERY = 2
    """The broker has caught up and is fenced: it gets leaderships once it is unfenced."""
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    """The broker has asked to stop, and waits until its leaderships are on other brokers."""
    SHUTTING_DOWN = 7


FOLLOWING: dict[BrokerState, frozenset[BrokerState]] = {
    BrokerState.NOT_RUNNING: frozenset({BrokerState.STARTING}),
    BrokerState.STARTING: frozenset({BrokerState.RECOVERY, BrokerState.SHUTTING_DOWN}),
    BrokerState.RECOVERY: frozenset({BrokerState.RUNNING, BrokerState.SHUTTING_DOWN}),
    BrokerState.RUNNING: frozenset({BrokerState.PENDING_CONTROLLED_SHUTDOWN, BrokerState.SHUTTING_DOWN}),
    BrokerState.PENDING_CONTROLLED_SHUTDOWN: frozenset({BrokerState.SHUTTING_DOWN}),
    BrokerState.SHUTTING_DOWN: frozenset(),
}
"""The states to which a broker may change from each state."""


class IllegalBrokerState(Exception):
    """The broker's state was to change in a way that the table `FOLLOWING` does not allow, which is a bug."""


def check_transition(state: BrokerState, following: BrokerState) -> None:
    if following not in FOLLOWING[state]:
        raise IllegalBrokerState(f"a broker in state {state.name} cannot change to {following.name}")
