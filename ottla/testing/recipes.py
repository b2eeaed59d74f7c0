"""Failures by name. Each function adds a fault, or causes the failure by a request, and says what an application should do.

The functions that return a `RemoteFault` can be used in a ``with`` block, which removes the fault at its end::

    with recipes.commit_response_lost(broker) as lost:
        run_my_application()
        lost.wait()

``broker`` is an `ottla.Broker`; of a cluster give ``cluster.faults(1)``, the faults of one broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from ottla.control.faults.apis import Api
from ottla.control.faults.remote_faults import Conditions, RemoteFault, RemoteFaults
from ottla.protocol.errors import Code

if TYPE_CHECKING:
    from ottla.testing.cluster_handle import Cluster
    from ottla.testing.handle import Broker

POISON = b'\xff\x00{"not": '
"""A value that is neither UTF-8 nor JSON."""
_ANY = "*"


def _faults(broker: Broker | RemoteFaults) -> RemoteFaults:
    return broker if isinstance(broker, RemoteFaults) else broker.faults


# failures of producers


def produce_response_lost(broker: Broker | RemoteFaults, topic: str = _ANY, *, times: int = 1) -> RemoteFault:
    """The records are written, but the connection breaks before the response. An idempotent producer sends them again without a
    duplicate; a producer that is not idempotent writes duplicates."""
    return _faults(broker).cut("after", api=Api.PRODUCE, topic=topic, times=times)


def produce_request_lost(broker: Broker | RemoteFaults, topic: str = _ANY, *, times: int = 1) -> RemoteFault:
    """The connection breaks before the records are written. A producer sends them again."""
    return _faults(broker).cut("before", api=Api.PRODUCE, topic=topic, times=times)


def full_disk(broker: Broker | RemoteFaults, topic: str = _ANY, *, times: int | None = None) -> RemoteFault:
    """No record can be written (KAFKA_STORAGE_ERROR) until the fault is removed. A producer retries until delivery.timeout.ms; the
    application must handle the error of the delivery."""
    return _faults(broker).error(api=Api.PRODUCE, topic=topic, code=Code.KAFKA_STORAGE_ERROR, times=times)


def record_too_large(broker: Broker | RemoteFaults, topic: str = _ANY, *, times: int = 1) -> RemoteFault:
    """A record is refused with MESSAGE_TOO_LARGE, which is not retried. The application must handle the error of the delivery."""
    return _faults(broker).error(api=Api.PRODUCE, topic=topic, code=Code.MESSAGE_TOO_LARGE, times=times)


def too_few_replicas(broker: Broker | RemoteFaults, topic: str = _ANY, *, times: int = 3) -> RemoteFault:
    """Fewer replicas are in sync than min.insync.replicas. A producer with acks=all retries until enough are in sync."""
    return _faults(broker).error(api=Api.PRODUCE, topic=topic, code=Code.NOT_ENOUGH_REPLICAS, times=times)


def leader_change(broker: Broker | RemoteFaults, topic: str = _ANY, *, times: int = 2) -> RemoteFault:
    """The leader of the partitions has moved: Produce is refused with NOT_LEADER_OR_FOLLOWER. A client looks up the new leader and
    tries again. In a cluster, `Cluster.move_leader` moves a leader."""
    return _faults(broker).error(api=Api.PRODUCE, topic=topic, code=Code.NOT_LEADER_OR_FOLLOWER, times=times)


def topic_forbidden(broker: Broker | RemoteFaults, topic: str = _ANY, *, times: int = 1) -> RemoteFault:
    """The right to write the topic was revoked. The error is not retried; the application must report it."""
    return _faults(broker).error(api=Api.PRODUCE, topic=topic, code=Code.TOPIC_AUTHORIZATION_FAILED, times=times)


# failures of transactions


def commit_response_lost(broker: Broker | RemoteFaults, transactional_id: str = _ANY, *, times: int = 1) -> RemoteFault:
    """The commit takes effect, but the connection breaks before the response. A producer commits again, and succeeds; an
    application that aborts instead, and repeats the work, writes its records twice."""
    return _faults(broker).cut("after", api=Api.END_TXN, transactional_id=transactional_id, times=times)


def commit_refused(broker: Broker | RemoteFaults, transactional_id: str = _ANY, *, times: int = 2) -> RemoteFault:
    """The transaction coordinator is not available for a while. A producer finds the coordinator and commits again."""
    return _faults(broker).error(
        api=Api.END_TXN, transactional_id=transactional_id, code=Code.COORDINATOR_NOT_AVAILABLE, times=times
    )


def crash_after_decision(broker: Broker | RemoteFaults, transactional_id: str = _ANY) -> RemoteFault:
    """The broker dies after the commit is decided and before a marker is written. After the restart the broker completes the
    commit; the producer commits again, and succeeds."""
    return _faults(broker).kill("after-prepare", transactional_id=transactional_id)


def markers_delayed(broker: Broker | RemoteFaults, transactional_id: str = _ANY) -> RemoteFault:
    """The commit is decided, but its markers are written only when the fault is removed. Readers with read_committed wait."""
    return _faults(broker).hold("after-prepare", transactional_id=transactional_id)


def zombie(broker: Broker | Cluster, transactional_id: str) -> None:
    """A second producer initializes the transactional id, which fences the first producer: its open transaction is aborted, and its
    next request fails with an error that is not retriable. The application must close the producer, and not repeat the work."""
    broker.transaction(transactional_id).begin()


def transaction_timeout(broker: Broker, seconds: int = 61) -> None:
    """The transaction timeout passes, so the broker aborts open transactions. Needs ``clock="manual"``. A producer's commit then
    fails, and the work must be repeated with a new transaction."""
    broker.clock.advance(f"{seconds}s")


# failures of consumers and groups


def rebalance(broker: Broker | RemoteFaults, group: str, *, times: int = 1) -> RemoteFault:
    """A rebalance begins while the consumer processes a batch, as the next heartbeat response says. The consumer joins again, and
    may get other partitions. Records whose offsets were not committed before the rebalance are read again."""
    return _faults(broker).error(api=Api.HEARTBEAT, group=group, code=Code.REBALANCE_IN_PROGRESS, times=times)


def session_expired(broker: Broker | RemoteFaults, group: str, *, times: int = 1) -> RemoteFault:
    """The group has removed the member, because its session timed out. Its commit is refused with UNKNOWN_MEMBER_ID: the consumer
    joins again and reads the batch again."""
    return _faults(broker).error(api=Api.OFFSET_COMMIT, group=group, code=Code.UNKNOWN_MEMBER_ID, times=times)


def offset_commit_lost(broker: Broker | RemoteFaults, group: str, *, times: int = 1) -> RemoteFault:
    """The offsets are committed, but the connection breaks before the response. A consumer commits again."""
    return _faults(broker).cut("after", api=Api.OFFSET_COMMIT, group=group, times=times)


def group_coordinator_moved(broker: Broker | RemoteFaults, group: str, *, times: int = 1) -> RemoteFault:
    """The group has moved to another coordinator: an offset commit is refused with NOT_COORDINATOR. A consumer finds the new
    coordinator and commits again."""
    return _faults(broker).error(api=Api.OFFSET_COMMIT, group=group, code=Code.NOT_COORDINATOR, times=times)


def coordinator_moved_in_offset_fetch(broker: Broker | RemoteFaults, group: str, *, times: int | None = 1) -> RemoteFault:
    """The group has moved to another coordinator when a consumer fetches its committed offsets: OffsetFetch is refused with
    NOT_COORDINATOR. Some clients find the new coordinator and retry, some raise the error, and some report that the group has no
    committed offset (docs/client-faults.md). The application must not start at offset 0 then."""
    return _faults(broker).error(api=Api.OFFSET_FETCH, group=group, code=Code.NOT_COORDINATOR, times=times)


def poison_record(broker: Broker | Cluster, topic: str, value: bytes = POISON, *, partition: int | None = None) -> None:
    """The topic has a record that cannot be deserialized. The application must skip it, or put it into a dead letter topic;
    otherwise it reads the record again after each restart."""
    broker.produce(topic, value, partition=partition)


def fetch_connection_lost(broker: Broker | RemoteFaults, topic: str = _ANY, *, times: int = 1) -> RemoteFault:
    """The connection breaks while the consumer waits for records. A consumer connects again and loses nothing."""
    return _faults(broker).cut("before", api=Api.FETCH, topic=topic, times=times)


# failures of the broker


def slow_broker(broker: Broker | RemoteFaults, ms: float = 500, **which: Unpack[Conditions]) -> RemoteFault:
    """Each response to a matching request, by default to any request, is late. An application must not treat a late response as a
    failure before its own timeout."""
    which.setdefault("times", None)
    return _faults(broker).delay(answer_ms=ms, **which)
