"""Checks of the cluster that a stream will write to: versions, rights, topics, timeouts, clocks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from ottla.client.admin.offsets import LATEST, list_offsets
from ottla.client.admin.topics import ConfigKind, get_configs
from ottla.client.cluster import GROUP, TRANSACTION, BrokerConnections, BrokerNode, nodes_of
from ottla.client.errors import ClientError
from ottla.client.finding import Finding, failed, ok, warning
from ottla.protocol.errors import Code
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic
from ottla.protocol.messages.produce import ProduceRequest
from ottla.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from ottla.spark.errors import BrokerRefused, NotServed
from ottla.spark.progress.marks import group_of
from ottla.spark.sink.options import SinkOptions
from ottla.spark.sink.transaction import ONGOING, WANTED_VERSION, state_of

READ, WRITE, CREATE, DESCRIBE = 3, 4, 5, 8
"""Codes of operations (org.apache.kafka.common.acl.AclOperation)."""
_NAMES: Final = {READ: "READ", WRITE: "WRITE", CREATE: "CREATE", DESCRIBE: "DESCRIBE"}
UNKNOWN_OPERATIONS: Final = -(1 << 31)
"""Value of authorized operations in a response of a broker that does not report them."""
MAX_AHEAD_MS: Final = 5_000
"""A record's timestamp may be this many ms ahead of this machine's clock before the doctor warns."""


def check_cluster(cluster: BrokerConnections, options: SinkOptions, inputs: Sequence[str] = ()) -> Iterator[Finding]:
    """Yield the findings. The first finding says whether the cluster can be reached; if it cannot, there are no others. ``inputs``
    are the topics of this cluster that the stream reads."""
    try:
        metadata = cluster.until_final("asking for the cluster", lambda: cluster.metadata([]))
    except ClientError as failure:
        yield failed("cluster", str(failure), "check the address, the listener's security protocol and the credentials")
        return
    yield ok("cluster", f"{metadata.cluster_id} with {len(metadata.brokers)} brokers at {cluster.bootstrap}")
    checks: tuple[Callable[[], Finding], ...] = (
        lambda: _version(cluster, options),
        lambda: _apis(cluster, nodes_of(metadata).values(), options),
        lambda: _id(cluster, options),
        lambda: _timeout(cluster, metadata.brokers[0].node_id, options),
        lambda: _group(cluster, options),
    )
    names = ("transaction.version", "APIs", "transactional.id", "timeout", "group")
    for name, check in zip(names, checks, strict=True):
        yield _answered(name, check)
    for topic in options.topics:
        yield _answered(f"topic {topic}", lambda topic=topic: _topic(cluster, topic))  # type: ignore[misc]
        yield _answered(f"clock, by topic {topic}", lambda topic=topic: _clock(cluster, topic))  # type: ignore[misc]
    if options.progress_topic is not None:
        yield _answered("progress topic", lambda: _progress(cluster, options.progress_topic or ""))
    yield from _carriers(cluster, options, inputs)


def _answered(name: str, check: Callable[[], Finding]) -> Finding:
    """Return the finding of a check, or, if a request of the check fails, a finding with the request's error."""
    try:
        return check()
    except (BrokerRefused, NotServed) as failure:
        if isinstance(failure, BrokerRefused) and failure.code == Code.INVALID_TOPIC_EXCEPTION:
            return failed(name, str(failure), "give a name of at most 249 letters, digits, '.', '_' and '-'")
        return warning(name, str(failure), "grant DESCRIBE, and DESCRIBE_CONFIGS for timeouts, and run the doctor again")
    except ClientError as failure:
        return failed(name, str(failure), "check that the cluster is healthy: ottla health")


def _version(cluster: BrokerConnections, options: SinkOptions) -> Finding:
    level = cluster.features().get("transaction.version", 0)
    if level >= WANTED_VERSION or options.writer == "driver":
        return ok("transaction.version", str(level))
    return failed(
        "transaction.version",
        f"{level}, and tasks that share a transaction need {WANTED_VERSION}",
        "kafka-features upgrade --feature transaction.version=2, or give the option writer=driver",
    )


def _apis(cluster: BrokerConnections, nodes: Iterable[BrokerNode], options: SinkOptions) -> Finding:
    """Check that this machine can connect to each broker, and that each broker has the APIs that the writer needs."""
    requests: list[Any] = [ProduceRequest(), TxnOffsetCommitRequest(), InitProducerIdRequest()]
    if cluster.features().get("transaction.version", 0) >= WANTED_VERSION:
        requests.append(EndTxnRequest())
    elif options.writer == "driver":
        requests += [EndTxnRequest(), AddPartitionsToTxnRequest(), AddOffsetsToTxnRequest()]
    else:
        return warning("APIs", "were not checked", "raise transaction.version first")
    try:
        for node in nodes:
            broker = cluster.until_final(f"connecting to broker {node.node_id}", lambda node=node: cluster.node(node))  # type: ignore[misc]
            for request in requests:
                broker.version(request)
    except NotServed as missing:
        driver = "" if options.writer == "driver" else ", or give the option writer=driver"
        return failed("APIs", str(missing), f"upgrade that broker{driver}")
    return ok("APIs", f"each broker can be reached, and has the APIs that writer={options.writer} needs")


def _id(cluster: BrokerConnections, options: SinkOptions) -> Finding:
    """Check the right to use the transactional id by an InitProducerId request with a timeout of 0. The coordinator checks the
    right first, then rejects the timeout (TransactionCoordinator.handleInitProducerId), so no producer is fenced."""
    name, transactional_id = "transactional.id", options.transactional_id
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=0, producer_id=-1, producer_epoch=-1)
    try:
        cluster.ask_until_final(
            lambda: cluster.coordinator(TRANSACTION, transactional_id), request, lambda a: a.error_code, "asking for the id"
        )
    except BrokerRefused as refused:
        if refused.code == Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            return failed(name, f"no right to use {transactional_id!r}", f"grant WRITE and DESCRIBE on {transactional_id!r}")
        if refused.code != Code.INVALID_TRANSACTION_TIMEOUT:
            raise
    if state_of(cluster, transactional_id) in ONGOING:
        return warning(
            name,
            f"a transaction is open under {transactional_id!r}",
            "this is the stream itself if it runs; else the next start ends the transaction, if it has the same checkpoint",
        )
    return ok(name, f"{transactional_id!r} can be used")


def _timeout(cluster: BrokerConnections, node: int, options: SinkOptions) -> Finding:
    configs = {config.name: config.value for config in get_configs(cluster, ConfigKind.BROKER, str(node))}
    limit = configs.get("transaction.max.timeout.ms")
    if limit is None:
        return warning("timeout", "the broker does not report transaction.max.timeout.ms", "ask the cluster's operators")
    if options.timeout_ms > int(limit):
        return failed(
            "timeout",
            f"transaction.timeout.ms={options.timeout_ms} is more than the broker's transaction.max.timeout.ms={limit}",
            f"give the option transaction.timeout.ms={limit}; each batch must be faster than that",
        )
    return ok("timeout", f"transaction.timeout.ms={options.timeout_ms}, at most {limit} are allowed")


def _group(cluster: BrokerConnections, options: SinkOptions) -> Finding:
    group = group_of(options.transactional_id)
    request = DescribeGroupsRequest(groups=[group], include_authorized_operations=True)
    # For a group that does not exist yet, the response has the state Dead or the error GROUP_ID_NOT_FOUND (KIP-1043), and the
    # authorized operations.
    passing = (Code.GROUP_ID_NOT_FOUND,)
    try:
        answer = cluster.ask_until_final(
            lambda: cluster.coordinator(GROUP, group),
            request,
            lambda a: 0 if a.groups[0].error_code in passing else a.groups[0].error_code,
            f"asking for the group {group!r}",
        )
    except BrokerRefused as refused:
        if refused.code != Code.GROUP_AUTHORIZATION_FAILED:
            raise
        return rights("group", f"group {group!r}", 0, (READ,))
    return rights("group", f"group {group!r}", answer.groups[0].authorized_operations, (READ,), f"{group!r} can be used")


def rights(check: str, resource: str, operations: int, needed: tuple[int, ...], found: str = "") -> Finding:
    """Return a finding for a bit field of authorized operations (KIP-430)."""
    if operations == UNKNOWN_OPERATIONS:
        return ok(check, found or "exists; the broker does not report rights")
    missing = [_NAMES[operation] for operation in needed if not operations >> operation & 1]
    if missing:
        return failed(check, f"no right to {' and '.join(missing)}", f"grant {' and '.join(missing)} on {resource}")
    return ok(check, found or f"{' and '.join(_NAMES[operation] for operation in needed)} are granted")


def _described(cluster: BrokerConnections, topic: str) -> MetadataResponseTopic | None:
    """Return the metadata of a topic, with the client's authorized operations. None if the topic does not exist, or the client may
    not see it."""
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False, include_topic_authorized_operations=True
    )
    missing = (Code.UNKNOWN_TOPIC_OR_PARTITION, Code.TOPIC_AUTHORIZATION_FAILED)

    def code_of(answer: Any) -> int:
        return 0 if answer.topics[0].error_code in missing else int(answer.topics[0].error_code)

    answer = cluster.ask_until_final(cluster.anyone, request, code_of, f"asking for topic {topic!r}")
    found: MetadataResponseTopic = answer.topics[0]
    return None if found.error_code else found


def _topic(cluster: BrokerConnections, topic: str) -> Finding:
    name, found = f"topic {topic}", _described(cluster, topic)
    if found is None:
        return failed(name, "does not exist, or may not be seen", f"ottla topic create {topic}, or grant DESCRIBE and WRITE on it")
    without = [partition.partition_index for partition in found.partitions if partition.leader_id < 0]
    if without:
        return failed(name, f"partition {without[0]} has no leader", "start the brokers that have its replicas")
    return rights(
        name, f"topic {topic!r}", found.topic_authorized_operations, (WRITE, DESCRIBE), f"{len(found.partitions)} partitions"
    )


def _progress(cluster: BrokerConnections, topic: str) -> Finding:
    name, found = "progress topic", _described(cluster, topic)
    if found is None:
        return warning(
            name,
            f"{topic!r} does not exist, or may not be seen",
            f"the first batch creates it, which needs CREATE; else: ottla topic create {topic} --partitions 1 --config"
            " cleanup.policy=compact",
        )
    policy = {config.name: config.value for config in get_configs(cluster, ConfigKind.TOPIC, topic)}.get("cleanup.policy")
    if policy != "compact":
        return failed(name, f"{topic!r} has cleanup.policy={policy}", "set cleanup.policy=compact, or give another progress.topic")
    return rights(name, f"topic {topic!r}", found.topic_authorized_operations, (READ, WRITE, DESCRIBE), f"{topic!r} is compacted")


def _carriers(cluster: BrokerConnections, options: SinkOptions, inputs: Sequence[str]) -> Iterator[Finding]:
    """Check the right to READ the topics whose offsets carry the progress in the group (`mark_topic`). TxnOffsetCommit needs it."""
    for topic in inputs:
        yield _answered(f"input topic {topic}", lambda topic=topic: _carrier(cluster, f"input topic {topic}", topic))  # type: ignore[misc]
    if (marks := options.mark_topic) is not None:
        yield _answered("mark topic", lambda: _carrier(cluster, "mark topic", marks))
    elif not inputs and (first := next(iter(options.topics), options.progress_topic)) is not None:
        yield _answered("progress in the group", lambda: _default_carrier(cluster, first))


def _carrier(cluster: BrokerConnections, name: str, topic: str) -> Finding:
    found = _described(cluster, topic)
    if found is None:
        return failed(name, f"{topic!r} does not exist, or may not be seen", f"create it, or grant READ on topic {topic!r}")
    return rights(name, f"topic {topic!r}", found.topic_authorized_operations, (READ,), f"{topic!r} can carry the progress")


def _default_carrier(cluster: BrokerConnections, topic: str) -> Finding:
    """Return a warning instead of a failure, because the doctor does not know what the stream reads."""
    finding = _carrier(cluster, "progress in the group", topic)
    if finding.status != "failed":
        return finding
    return warning(
        finding.check,
        f"no right to READ {topic!r}, whose offset carries the progress of a stream that reads files or another cluster",
        f"grant READ on topic {topic!r}, or name the input topics of this cluster with --source-topic, or a --mark-topic",
    )


def _clock(cluster: BrokerConnections, topic: str) -> Finding:
    """Look for records with timestamps after this machine's time, because Kafka has no request for a broker's time."""
    name, ahead_ms = f"clock, by topic {topic}", time.time_ns() // 1_000_000 + MAX_AHEAD_MS
    indexes = cluster.partitions(topic)
    later, ends = list_offsets(cluster, topic, indexes, ahead_ms), list_offsets(cluster, topic, indexes, LATEST)
    if any(offset < ends[index] for index, offset in later.items()):
        return warning(
            name,
            f"has records that are more than {MAX_AHEAD_MS // 1000} s ahead of this machine's clock",
            "compare the clocks of this machine, the executors and the brokers (NTP): windows and retention go by them",
        )
    return ok(name, "no record is ahead of this machine's clock")
