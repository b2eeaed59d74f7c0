"""Commands on the cluster's metadata: creates and deletes topics, sets configs and features, allocates producer ids."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn, Protocol, TypeVar

import structlog

from ottla.broker.config.live_config import LiveConfig
from ottla.broker.loop.env import Randomness
from ottla.broker.metadata.internal_topics import NewTopic, internal_topic
from ottla.broker.metadata.metadata_log import MetadataLog
from ottla.broker.metadata.placement import Place
from ottla.broker.partitions.runtime import nothing
from ottla.coordinator.metadata.acls import Deleted
from ottla.coordinator.metadata.client_quotas import Entity
from ottla.coordinator.metadata.cluster import BROKER_RESOURCE, ClusterState
from ottla.coordinator.metadata.topics import Topic
from ottla.coordinator.result import Result
from ottla.operations.metadata_log import DEFAULT_FEATURES, levels_with
from ottla.protocol import steps
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.internal_topics import METADATA_TOPIC
from ottla.protocol.steps import in_thread, next_turn
from ottla.protocol.uuids import uuid_text
from ottla.security.acl.bindings import AclBinding, AclBindingFilter
from ottla.security.principal import KafkaPrincipal

if TYPE_CHECKING:
    from ottla.coordinator.metadata.delegation_tokens import Lifetimes, StoredToken

SUPPORTED_FEATURES = {
    "eligible.leader.replicas.version": (0, 1),
    "group.version": (0, 1),
    "kraft.version": (0, 1),
    "metadata.version": (7, 33),
    "share.version": (0, 2),
    "streams.version": (0, 1),
    "transaction.version": (0, 2),
}

PARTITIONS_AT_ONCE = 100
"""Number of partitions above which a command is computed in a worker thread."""

ACL_WORK = 4
"""Time counted for creating, deleting or comparing an ACL, in units of 2 us.

The actual time is about 30 us. Less is counted, so that a step takes 8 ms instead of 2 ms: each step writes a batch, and shorter
steps would write many more batches.
"""

MAX_IDS_LOGGED = 10
"""Maximum number of expired delegation tokens that one log line names."""
NEXT_SWEEP_MS = 10
"""Delay in ms before more expired delegation tokens are removed, if `sweep_tokens` has left some."""

T = TypeVar("T")


class TopicCreation(Protocol):
    """A controller in another process that creates the topics that this broker needs."""

    def create_topic(self, topic: NewTopic) -> NoReturn:
        """Request the creation of a topic. Raises UNKNOWN_TOPIC_OR_PARTITION, on which clients retry until the topic exists."""
        ...


log = structlog.get_logger("cluster")


def acls_at_once() -> int:
    """The number of ACLs that are created, deleted or compared in one step."""
    return max(steps.WORK_A_STEP // ACL_WORK, 1)


class ClusterCommands:
    """Commands on the cluster's metadata. When a command returns, its records are in the log and applied to the broker
    (``publish``).

    If a command raises `KafkaError`, nothing has changed.
    """

    def __init__(
        self,
        *,
        randomness: Randomness,
        config: LiveConfig,
        state: ClusterState,
        metadata_log: MetadataLog,
        publish: Callable[[Collection[str]], None],
        controller: TopicCreation | None = None,
        decide_features: Callable[[Mapping[str, int]], Result[None]] | None = None,
    ) -> None:
        """``publish`` is called with the names of the node's own configs that a command has set, even to equal values.

        ``controller`` creates topics if the controller is in another process. ``decide_features`` sets feature levels, by default
        `ClusterState.set_features`.
        """
        self._randomness = randomness
        self._config = config
        self.state = state
        self.metadata_log = metadata_log
        self._publish = publish
        self._controller = controller
        self._decide_features = state.set_features if decide_features is None else decide_features
        self._least_producer_id = 0

    @property
    def is_alone(self) -> bool:
        """Whether this broker is the whole cluster, and its own controller."""
        return self.state.is_alone

    def _execute(self, result: Result[T], own_configs: Collection[str] = ()) -> T:
        response = self.metadata_log.execute(result)
        self._publish(own_configs)
        return response

    async def _execute_large(self, command: Callable[[], Result[T]], before_append: Callable[[], None]) -> T:
        response = await self.metadata_log.execute_large(command, before_append)
        self._publish(())
        return response

    def set_up(self, features: Mapping[str, int], *, is_new: bool) -> None:
        """Set the levels of ``features`` when the broker starts.

        If the metadata log is new, all other features get their default levels.
        """
        self._execute(self.state.set_features(levels_with(DEFAULT_FEATURES, features) if is_new else dict(features)))
        self._drop_metadata_topic()

    def _drop_metadata_topic(self) -> None:
        """Delete a topic with the metadata log's name, but keep the log.

        Earlier versions of ottla let a client create such a topic, and wrote its batches into the metadata log. Replay skips these
        batches.
        """
        if METADATA_TOPIC in self.state.topics:
            self._execute(self.state.delete_topic(METADATA_TOPIC))
            log.warning(
                "metadata_topic_removed", topic=METADATA_TOPIC, hint="records that clients wrote to the topic are not served"
            )

    # creating and changing topics

    def create_topic(
        self,
        name: str,
        count: int,
        configs: Mapping[str, str],
        place: Place | None = None,
        before_append: Callable[[], None] = nothing,
    ) -> Topic:
        """Create a topic, by default with partitions on this broker.

        ``before_append`` is called after the topic was checked. If it raises `KafkaError`, the topic is not created.
        """
        if self._controller is not None:
            self.state.check_new_topic(name)
            factor = self._config.settings.default_replication_factor
            self._controller.create_topic(
                NewTopic(name=name, partition_count=count, configs=dict(configs), replication_factor=factor)
            )
        topic_id = self._randomness.random_uuid()
        result = self.state.create_topic(name, topic_id, count, configs, place and place())
        before_append()
        self._execute(result)
        return self.state.topics[name]

    async def create_large_topic(
        self,
        name: str,
        count: int,
        configs: Mapping[str, str],
        place: Place | None = None,
        before_append: Callable[[], None] = nothing,
    ) -> Topic:
        """Like `create_topic`, but for thousands of partitions, which are computed in a worker thread."""
        if self._controller is not None:
            return self.create_topic(name, count, configs)
        topic_id = self._randomness.random_uuid()
        command = lambda: self.state.create_topic(name, topic_id, count, configs, place and place())  # noqa: E731
        await self._execute_large(command, before_append)
        return self.state.topics[name]

    def ensure_internal(self, name: str) -> Topic:
        """Return the internal topic of a coordinator. Creates the topic if it does not exist. Raises `KafkaError`."""
        topic = self.state.topics.get(name)
        if topic is not None:
            return topic
        made = internal_topic(name, self._config.current)
        if self._controller is not None:
            self._controller.create_topic(made)
        return self.create_topic(name, made.partition_count, made.configs)

    def ensure_coordinator(self, name: str) -> None:
        """Create the internal topic of a coordinator if it does not exist.

        Every error becomes COORDINATOR_NOT_AVAILABLE, because clients retry only on this code.
        """
        try:
            self.ensure_internal(name)
        except KafkaError as error:
            raise KafkaError(Code.COORDINATOR_NOT_AVAILABLE) from error

    async def create_partitions(
        self, name: str, count: int, place: Place | None = None, before_append: Callable[[], None] = nothing
    ) -> None:
        """Raise a topic's number of partitions to ``count``. ``before_append``: see `create_topic`."""
        added = count - self.state.topic(name).partition_count
        if added <= PARTITIONS_AT_ONCE:
            result = self.state.create_partitions(name, count, place and place())
            before_append()
            self._execute(result)
        else:
            await self._execute_large(lambda: self.state.create_partitions(name, count, place and place()), before_append)

    def delete_topic(self, name: str) -> None:
        self._execute(self.state.delete_topic(name))

    def set_configs(self, resource_type: int, name: str, changes: Mapping[str, str | None]) -> None:
        """Set configs of a resource. The value None removes a config."""
        is_own = resource_type == BROKER_RESOURCE and name == str(self.state.node_id)
        self._execute(self.state.set_configs(resource_type, name, changes), changes.keys() if is_own else ())

    def alter_quotas(self, entity: Entity, changes: Mapping[str, float | None], *, validate_only: bool) -> None:
        """Set or remove quotas of a user, client id or IP address."""
        result = self.state.client_quotas.alter(entity, changes)
        if not validate_only:
            self._execute(result)

    def set_credential(self, name: str, mechanism: int, salt: bytes, salted_password: bytes, iterations: int) -> None:
        """Set a SCRAM credential of a user."""
        self._execute(self.state.credentials.set(name, mechanism, salt, salted_password, iterations))

    def remove_credential(self, name: str, mechanism: int) -> None:
        """Remove a SCRAM credential of a user."""
        self._execute(self.state.credentials.remove(name, mechanism))

    # changes of delegation tokens

    def create_token(
        self,
        owner: KafkaPrincipal,
        requester: KafkaPrincipal,
        renewers: Sequence[KafkaPrincipal],
        max_lifetime_ms: int,
        now_ms: int,
    ) -> StoredToken:
        """Create a delegation token. On `KafkaError` nothing has changed."""
        result = self.state.tokens.create(
            uuid_text(self._randomness.random_uuid()),
            owner,
            requester,
            renewers,
            now_ms=now_ms,
            max_lifetime_ms=max_lifetime_ms,
            lifetimes=self._token_lifetimes,
            metadata_version=self.state.metadata_version,
        )
        return self._execute(result)

    def renew_token(self, hmac: bytes, requester: KafkaPrincipal, period_ms: int, now_ms: int) -> int:
        """Renew a delegation token; returns its new expiry time in ms. On `KafkaError` nothing has changed."""
        return self._execute(self.state.tokens.renew(hmac, requester, period_ms, now_ms=now_ms, lifetimes=self._token_lifetimes))

    def expire_token(self, hmac: bytes, requester: KafkaPrincipal, period_ms: int, now_ms: int) -> int:
        """Expire a delegation token; returns its expiry time in ms (`DelegationTokens.expire`). On `KafkaError` nothing changes."""
        return self._execute(self.state.tokens.expire(hmac, requester, period_ms, now_ms=now_ms))

    def sweep_tokens(self, now_ms: int) -> bool:
        """Remove some expired delegation tokens; returns whether others remain. On `KafkaError` nothing has changed."""
        result = self.state.tokens.sweep(now_ms)
        if not result.records:
            return False
        removed = self._execute(result)
        log.info("delegation_tokens_expired", count=len(removed), token_ids=removed[:MAX_IDS_LOGGED])
        return any(token.has_expired(now_ms) for token in self.state.tokens.by_id.values())

    @property
    def _token_lifetimes(self) -> Lifetimes:
        from ottla.coordinator.metadata.delegation_tokens import Lifetimes

        settings = self._config.settings
        return Lifetimes(max_ms=settings.delegation_token_max_lifetime_ms, renew_ms=settings.delegation_token_expiry_time_ms)

    # creating and deleting ACLs

    async def create_acls(self, acls: Sequence[AclBinding]) -> list[KafkaError | None]:
        """Create ACLs; returns an error or None for each ACL. On `KafkaError` nothing has changed.

        Kafka appends all ACLs in one batch; in ottla each step appends a batch. If the log refuses a later step's batch, the ACLs
        of that step get the error.
        """
        state, results, at_once = self.state, list[KafkaError | None](), acls_at_once()
        if len(acls) > at_once:
            await in_thread(lambda: state.acls.check_count(acls))
        for start in range(0, len(acls), at_once):
            some = acls[start : start + at_once]
            if start:
                await next_turn()
            try:
                created: list[KafkaError | None] = self._execute(
                    state.acls.create(some, self._randomness.random_uuid, state.metadata_version)
                )
                results += created
            except KafkaError as error:
                if not start:
                    raise
                results += [error] * len(some)
        return results

    async def delete_acls(self, filters: Sequence[AclBindingFilter]) -> list[list[AclBinding] | KafkaError]:
        """Delete the ACLs that match filters. Returns the deleted ACLs, or an error, for each filter.

        Kafka deletes all ACLs in one batch; in ottla each step writes a batch. If the log refuses a step's batch, the ACLs of
        earlier steps stay deleted.
        """
        acls, at_once = self.state.acls, acls_at_once()
        if len(filters) * len(acls.by_id) <= at_once:
            return self._execute(acls.delete(filters))
        made: list[tuple[Deleted, list[bytes]]] = []
        await in_thread(lambda: made.append(acls.find(filters)))
        results, found = made.pop()
        for start in range(0, len(found), at_once):
            if start:
                await next_turn()
            self._execute(acls.remove(found[start : start + at_once]))
        return results

    # setting features and allocating producer ids

    @property
    def features_epoch(self) -> int:
        """The epoch of the feature levels, which grows with every change: the metadata log's end offset."""
        return self.metadata_log.end_offset

    @property
    def transaction_version(self) -> int:
        return self.state.transaction_version

    def set_features(self, levels: Mapping[str, int]) -> None:
        """Set feature levels."""
        self._execute(self._decide_features({n: level for n, level in levels.items() if self.state.features.get(n, 0) != level}))

    @property
    def next_producer_id(self) -> int:
        """The lowest producer id above all allocated blocks."""
        return max(self.state.next_producer_id, self._least_producer_id)

    def skip_producer_ids(self, highest: int) -> bool:
        """Never allocate producer ids up to ``highest``, which are in use. Returns whether the metadata log lacks their blocks.

        Writes nothing, so that a starting broker needs no disk space. Until a new block is logged, each start finds these ids in
        use again.
        """
        if self.next_producer_id > highest:
            return False
        self._least_producer_id = highest + 1
        return True

    def allocate_producer_ids(self, then: Callable[[range | KafkaError], None]) -> None:
        """Log a new block of producer ids, and call ``then`` with the block or an error before this call returns."""
        try:
            block: range | KafkaError = range(*self._execute(self.state.allocate_producer_ids(self._least_producer_id)))
        except KafkaError as error:
            block = error
        then(block)
