"""Waits for named conditions of a broker, above all of Apache Kafka.

Apache Kafka's controller responds when a change is in its own log. The brokers replay that log later: they list the
change in their metadata, open the partitions, load the coordinators, and apply the configs. So a test waits for the state that its
next request needs.

Every wait has a named condition and the same generous limit, which only guards against hanging. A wait that fails reports the
condition, the broker and the last value.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from ottla.client.errors import ClientError
from ottla.protocol.errors import Code
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

T = TypeVar("T")

LIMIT_S = 60.0
PAUSE_S = 0.02
MAX_VALUE_LENGTH = 2_000
"""Maximum number of characters of the last value in an error message."""
GROUP, TRANSACTION, SHARE = 0, 1, 2
"""Key types of FindCoordinator."""
BROKER_CONFIG, TOPIC_CONFIG, GROUP_CONFIG = 4, 2, 32
"""Resource types of DescribeConfigs."""
_VERSIONS = ApiVersionsRequest(client_software_name="tests", client_software_version="1")
"""Apache Kafka refuses an ApiVersions request without the client's software name and version."""
SET_CONFIGS = {1, 3, 8}
"""Sources of configs that are set for a topic, for all brokers, or for a group, as DescribeConfigs encodes them."""
NOT_READY = frozenset(
    {
        Code.COORDINATOR_LOAD_IN_PROGRESS,
        Code.COORDINATOR_NOT_AVAILABLE,
        Code.NOT_COORDINATOR,
        Code.NOT_LEADER_OR_FOLLOWER,
        Code.LEADER_NOT_AVAILABLE,
    }
)
"""Error codes of a broker that is not ready yet, so that the request is repeated."""


class Client(Protocol):
    """A connection to one broker, such as `tests.support.raw_client.RawClient`."""

    def call(self, request: Any, version: int | None = None) -> Any: ...


class Clock(Protocol):
    """The clock of a broker: a simulated clock if the broker is simulated."""

    def now_ms(self) -> int: ...

    def sleep(self, ms: float) -> None: ...


class Brokers(Protocol):
    """Several brokers, such as `tools.kafka_cluster.SeveralBrokers`."""

    @property
    def bootstrap(self) -> str: ...

    def leader(self, topic: str, partition: int = 0) -> int | None: ...

    def in_sync(self, topic: str, partition: int = 0) -> list[int]: ...

    def in_service(self) -> list[int]: ...


class ConditionNotMet(AssertionError):
    """A condition that a test waited for was not met in time. The message names the condition, the broker and the last value."""


class RealClock:
    def now_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def sleep(self, ms: float) -> None:
        time.sleep(ms / 1000)


REAL = RealClock()


def wait_for(
    condition: str,
    look: Callable[[], T],
    holds: Callable[[T], bool] = bool,
    *,
    at: str = "",
    clock: Clock = REAL,
    limit_s: float = LIMIT_S,
    not_yet: type[Exception] | tuple[type[Exception], ...] = (),
) -> T:
    """Call ``look`` until ``holds`` accepts its value, and return that value. Raises `ConditionNotMet` after the limit.

    ``at`` is the broker's address for the message. An exception in ``not_yet`` counts as a value that is not accepted; other
    exceptions are raised.
    """
    values: list[T] = []
    last = ""

    def is_met() -> bool:
        nonlocal last
        values.clear()
        try:
            values.append(look())
        except not_yet as error:
            last = f"{type(error).__name__}: {error}"
            return False
        last = repr(values[0])[:MAX_VALUE_LENGTH]
        return holds(values[0])

    if final_value(is_met, bool, clock=clock, limit_s=limit_s):
        return values[0]
    where = f" on {at}" if at else ""
    raise ConditionNotMet(f"condition not met within {limit_s:g} s{where}: {condition}; last value: {last}")


def final_value(look: Callable[[], T], holds: Callable[[T], bool], *, clock: Clock = REAL, limit_s: float = LIMIT_S) -> T:
    """Call ``look`` until ``holds`` accepts its value or the limit is over. Returns the last value, which the caller compares."""
    deadline_ms = clock.now_ms() + limit_s * 1000
    while True:
        value = look()
        if holds(value) or clock.now_ms() >= deadline_ms:
            return value
        clock.sleep(PAUSE_S * 1000)


def wait_until(condition: str, look: Callable[[], T], *, at: str = "", limit_s: float = LIMIT_S) -> T:
    """Wait for a condition of a cluster. A `ClientError` raised by ``look`` means that the condition is not met yet."""
    return wait_for(condition, look, at=at, limit_s=limit_s, not_yet=ClientError)


def _wait(client: Client, condition: str, look: Callable[[], T], holds: Callable[[T], bool]) -> T:
    """Call `wait_for` with the client's clock and broker address if the client has these attributes."""
    at, clock = getattr(client, "bootstrap", type(client).__name__), getattr(client, "clock", REAL)
    return wait_for(condition, look, holds, at=at, clock=clock)


def ready(client: Client, request: Any, version: int | None, codes: Callable[[Any], Sequence[int]]) -> Any:
    """Send a request until its response contains no error code of `NOT_READY`. Returns that response."""
    answered: list[Any] = []

    def look() -> list[str]:
        answered[:] = [client.call(request, version)]
        return names(codes(answered[0]))

    _wait(
        client,
        f"{type(request).__name__} finds its coordinator or leader ready",
        look,
        lambda shown: not any(Code[name] in NOT_READY for name in shown),
    )
    return answered[0]


def names(codes: Sequence[int]) -> list[str]:
    return [Code(code).name for code in codes]


def topic_known(client: Client, topic: str, partitions: int = 1) -> None:
    """Wait until the broker's metadata lists the topic with this number of partitions, each with a leader."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)

    def look() -> list[str]:
        shown = client.call(request, 9).topics[0]
        return names([shown.error_code, *(p.error_code for p in shown.partitions)])

    _wait(
        client,
        f"topic {topic!r} has {partitions} partitions with leaders",
        look,
        lambda shown: shown == [Code.NONE.name] * (partitions + 1),
    )


def topic_gone(client: Client, topic: str) -> None:
    """Wait until the broker's metadata no longer lists the topic."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    _wait(
        client,
        f"topic {topic!r} is gone",
        lambda: Code(client.call(request, 9).topics[0].error_code),
        lambda code: code is Code.UNKNOWN_TOPIC_OR_PARTITION,
    )


def leaders_lead(client: Client, topic: str, partitions: int = 1) -> None:
    """Wait until the broker accepts requests for the topic's partitions as leader.

    Apache Kafka lists a leader in its metadata before that broker accepts requests.
    """
    topic_known(client, topic, partitions)
    _lead(client, topic, range(partitions))


def _lead(client: Client, topic: str, indexes: Sequence[int]) -> None:
    asked = [ListOffsetsPartition(partition_index=index, current_leader_epoch=-1, timestamp=-1) for index in indexes]
    request = ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[ListOffsetsTopic(name=topic, partitions=asked)])

    def look() -> list[str]:
        return names([p.error_code for p in client.call(request, 7).topics[0].partitions])

    condition = f"the leaders of partitions {list(indexes)} of topic {topic!r} lead"
    _wait(client, condition, look, lambda shown: set(shown) == {Code.NONE.name})


def up_to_date(client: Client, brokers: Sequence[int] = ()) -> None:
    """Wait until the broker has applied all changes that the controller has acknowledged.

    With ``brokers``, the client must be connected to several brokers, and each of ``brokers`` must have applied the changes.

    The wait creates a topic: a broker applies the controller's records in order, so when it leads a topic that is created now, it
    has applied everything that the controller acknowledged before.
    """
    topic = f"up-to-date-{uuid.uuid4().hex[:8]}"
    assigned = [CreatableReplicaAssignment(partition_index=index, broker_ids=[broker]) for index, broker in enumerate(brokers)]
    number = -1 if assigned else 1
    created = CreatableTopic(name=topic, num_partitions=number, replication_factor=number, assignments=assigned)
    request = CreateTopicsRequest(topics=[created], timeout_ms=int(LIMIT_S * 1000))
    # A broker that was paused is fenced until its next heartbeat. Until then the controller places no replica there.
    answer = _wait(
        client,
        f"brokers {list(brokers)} are not fenced",
        lambda: client.call(request).topics[0],
        lambda topic: topic.error_code != Code.INVALID_REPLICA_ASSIGNMENT,
    )
    assert answer.error_code == Code.NONE, f"{Code(answer.error_code).name} {answer.error_message}"
    topic_known(client, topic, len(assigned) or 1)
    for index in range(len(assigned) or 1):
        _lead(client, topic, [index])


def config_shown(client: Client, kind: int, name: str, wanted: Mapping[str, str | None]) -> None:
    """Wait until DescribeConfigs returns these values of set configs. None means a config that is not set."""
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=list(wanted))

    def look() -> dict[str, str | None]:
        shown = client.call(DescribeConfigsRequest([resource])).results[0].configs
        values = {entry.name: entry.value for entry in shown if entry.config_source in SET_CONFIGS}
        return {key: values.get(key) for key in wanted}

    _wait(client, f"{dict(wanted)} is set for {name!r}", look, dict(wanted).__eq__)


def feature_shown(client: Client, levels: Mapping[str, int]) -> None:
    """Wait until ApiVersions returns these levels of the features."""

    def look() -> dict[str, int]:
        shown = {entry.name: entry.max_version_level for entry in client.call(_VERSIONS, 4).finalized_features}
        return {feature: shown.get(feature, 0) for feature in levels}

    _wait(client, f"features have the levels {dict(levels)}", look, dict(levels).__eq__)


def coordinator_known(client: Client, key: str, kind: int) -> None:
    """Wait until the broker finds the key's coordinator. The first FindCoordinator request creates the internal topic."""
    _wait(
        client,
        f"the coordinator of {key!r} (key type {kind}) is known",
        lambda: Code(client.call(FindCoordinatorRequest(key=key, key_type=kind), 3).error_code),
        lambda code: code is Code.NONE,
    )


def in_service(cluster: Brokers, brokers: Sequence[int]) -> None:
    """Wait until clients see exactly these brokers, and all other brokers are fenced."""
    _cluster(cluster, f"brokers {list(brokers)} are in service, and no others", cluster.in_service, list(brokers).__eq__)


def in_sync(cluster: Brokers, topic: str, brokers: Sequence[int], partition: int = 0) -> None:
    """Wait until exactly these brokers are the partition's in-sync replicas."""
    condition = f"in-sync replicas of {topic}/{partition} are {list(brokers)}"
    _cluster(cluster, condition, lambda: cluster.in_sync(topic, partition), list(brokers).__eq__)


def led_by(cluster: Brokers, topic: str, leaders: Sequence[int], partition: int = 0) -> int:
    """Wait until one of these brokers leads the partition, and return that broker."""
    condition = f"the leader of {topic}/{partition} is one of {sorted(leaders)}"
    leader = _cluster(cluster, condition, lambda: cluster.leader(topic, partition), lambda broker: broker in leaders)
    assert leader is not None
    return leader


def _cluster(cluster: Brokers, condition: str, look: Callable[[], T], holds: Callable[[T], bool]) -> T:
    return wait_for(condition, look, holds, at=cluster.bootstrap, not_yet=ClientError)
