"""Brokers with an ottla controller: joining, leaving, forwarded requests, and the metadata that they receive."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from ottla.broker.broker import BrokerServer
from ottla.broker.config.definitions import ConfigError
from ottla.broker.config.settings import BrokerConfig
from ottla.broker.membership.states import BrokerState
from ottla.broker.process.serving import Serving
from ottla.broker.shared.shared_server import Host
from ottla.coordinator.metadata.cluster import TOPIC_RESOURCE
from ottla.protocol.errors import Code
from ottla.protocol.messages import incremental_alter_configs as configs
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.unregister_broker import UnregisterBrokerRequest
from ottla.protocol.records import build_batch
from ottla.protocol.uuids import uuid_text
from ottla.simulation.client import SimulatedClient
from ottla.simulation.coroutines import drive
from ottla.storage.identity import DirectoryError, DirectoryIdentity, write_identity
from tests.broker.membership.member_world import CLUSTER_ID, Member, MemberWorld


@pytest.fixture
def world() -> Iterator[MemberWorld]:
    made = MemberWorld()
    yield made
    made.close()
    assert made.bugs == 0


@pytest.fixture
def member(world: MemberWorld) -> Iterator[Member]:
    made = world.start(1)
    yield made
    world.stop(made)


@pytest.fixture
def client(member: Member) -> Iterator[SimulatedClient]:
    with member.connect() as made:
        yield made


def created(client: SimulatedClient, name: str, partitions: int = 1, factor: int = 1) -> Any:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor)
    (result,) = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=5_000)).topics
    return result


def produce(client: SimulatedClient, topic_id: bytes, index: int = 0) -> Code:
    data = PartitionProduceData(index=index, records=bytes(build_batch([(None, b"v")], 1_000)))
    request = ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[TopicProduceData(topic_id=topic_id, partition_data=[data])])
    return Code(client.call(request).responses[0].partition_responses[0].error_code)


def described(client: SimulatedClient, name: str) -> Any:
    return metadata(client, name, may_create=True)


def metadata(client: SimulatedClient, name: str, *, may_create: bool) -> Any:
    asked = [MetadataRequestTopic(name=name)]
    (topic,) = client.call(MetadataRequest(topics=asked, allow_auto_topic_creation=may_create)).topics
    return topic


def test_broker_registers_at_the_controller_serves_clients_and_shuts_down(world: MemberWorld) -> None:
    member = world.start(1)
    assert member.server.metadata.lifecycle.state is BrokerState.RUNNING  # type: ignore[attr-defined]
    registered = world.controller.cluster.state.registrations.brokers[1]
    assert [(e.name, e.host, e.port) for e in registered.listeners] == [("PLAINTEXT", "127.0.0.1", 9102)]
    assert not registered.is_fenced
    world.stop(member)
    assert world.controller.cluster.state.registrations.brokers[1].is_fenced


def test_broker_serves_a_topic_created_by_the_controller(world: MemberWorld, member: Member, client: SimulatedClient) -> None:
    result = created(client, "t", 3)
    assert (result.error_code, result.num_partitions, result.replication_factor) == (Code.NONE, 3, 1)
    world.sleep(50)
    assert [p.leader_id for p in described(client, "t").partitions] == [1, 1, 1]
    assert produce(client, result.topic_id, 2) == Code.NONE
    assert created(client, "t").error_code == Code.TOPIC_ALREADY_EXISTS
    gone = client.call(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=5_000))
    assert [r.error_code for r in gone.responses] == [Code.NONE]
    world.sleep(50)
    assert metadata(client, "t", may_create=False).error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
    assert list(member.server.partitions) == []


def test_records_on_a_broker_of_a_cluster_survive_its_restart(world: MemberWorld) -> None:
    member = world.start(1)
    with member.connect() as client:
        topic_id = created(client, "t").topic_id
        world.sleep(50)
        assert produce(client, topic_id) == Code.NONE
    for is_killed in (False, True):
        world.kill(member) if is_killed else world.stop(member)
        member = world.start(1)
        world.sleep(100)
        partition = member.server.partitions.get("t", 0)
        assert partition.log.log_end_offset == 1
    assert partition.log.leader_epoch > 1, "each restart first leaves no leader and then elects this broker, in new epochs"
    world.stop(member)


def test_killed_broker_rejoins_after_its_session_ends(world: MemberWorld) -> None:
    world.kill(world.start(1))
    world.stop(world.start(1))


def test_metadata_request_creates_a_topic_through_the_controller(world: MemberWorld, client: SimulatedClient) -> None:
    assert described(client, "auto").error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
    world.sleep(50)
    topic = described(client, "auto")
    assert (topic.error_code, [p.leader_id for p in topic.partitions]) == (Code.NONE, [1])
    assert described(client, "not a name").error_code == Code.INVALID_TOPIC_EXCEPTION


def test_coordinator_topic_is_created_through_the_controller(world: MemberWorld, client: SimulatedClient) -> None:
    request = FindCoordinatorRequest(key_type=1, coordinator_keys=["tx"])
    assert client.call(request).coordinators[0].error_code == Code.COORDINATOR_NOT_AVAILABLE
    world.sleep(100)
    assert [(c.error_code, c.node_id) for c in client.call(request).coordinators] == [(Code.NONE, 1)]
    asked = InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=60_000)
    first = client.call(asked)
    world.sleep(50)
    second = client.call(asked) if first.error_code == Code.COORDINATOR_LOAD_IN_PROGRESS else first
    assert (second.error_code, second.producer_id >= 0) == (Code.NONE, True)


def alter(client: SimulatedClient, *resources: tuple[int, str, str, str]) -> list[tuple[int, int, str | None]]:
    asked = [
        configs.AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[configs.AlterableConfig(name=key, config_operation=0, value=value)],
        )
        for kind, name, key, value in resources
    ]
    response = client.call(configs.IncrementalAlterConfigsRequest(resources=asked, validate_only=False))
    return [(r.error_code, r.resource_type, r.error_message) for r in response.responses]


def test_configs_in_the_controllers_metadata_take_effect_on_the_broker(
    world: MemberWorld, member: Member, client: SimulatedClient
) -> None:
    created(client, "t")
    world.sleep(50)
    assert [code for code, _, _ in alter(client, (2, "t", "retention.ms", "77"), (4, "", "max.connections", "50"))] == [0, 0]
    world.sleep(50)
    assert member.server.partitions.get("t", 0).log.config.retention_ms == 77
    assert member.server.settings.max_connections == 50


def test_broker_checks_its_listener_configs_before_it_forwards_them_to_the_controller(
    world: MemberWorld, member: Member, client: SimulatedClient
) -> None:
    """The controller cannot read the broker's key stores, so a refused config is not forwarded."""

    key = "listener.name.in.ssl.keystore.location"

    class Part:
        used: str | None = None
        reloads = frozenset({key})

        def check(self, config: BrokerConfig) -> None:
            if config.dynamic.get(key) == "/bad":
                raise ConfigError("cannot read /bad")

        def use(self, config: BrokerConfig) -> None:
            self.used = config.dynamic.get(key)

    part = Part()
    member.server.live_config.parts.append(part)
    answers = alter(client, (4, "1", key, "/bad"), (4, "", "max.connections", "50"))
    assert [(code, reason) for code, _, reason in answers] == [(Code.INVALID_REQUEST, "cannot read /bad"), (Code.NONE, None)]
    assert [code for code, _, _ in alter(client, (4, "1", key, "/good"))] == [Code.NONE]
    world.sleep(50)
    assert part.used == "/good"
    assert member.server.settings.max_connections == 50


def test_broker_changes_its_log_levels_without_forwarding_to_the_controller(member: Member, client: SimulatedClient) -> None:
    answers = alter(client, (8, "1", "root", "WARN"), (2, "none", "retention.ms", "1"))
    assert [(code, kind) for code, kind, _ in answers] == [(Code.NONE, 8), (Code.UNKNOWN_TOPIC_OR_PARTITION, 2)]
    assert member.server.log_levels.of("root") == "WARN"
    member.server.log_levels.begin_anew()
    assert [(code, kind) for code, kind, _ in alter(client, (8, "1", "root", "NONSENSE"))] == [(Code.INVALID_CONFIG, 8)]


def test_forwarded_request_times_out_without_a_response(world: MemberWorld) -> None:
    member = world.start(1)
    world.run(world.controller.stop())
    with member.connect() as client:
        assert created(client, "t").error_code == Code.REQUEST_TIMED_OUT
    world.kill(member)
    world.start_controller()


def test_broker_stop_does_not_wait_for_an_unreachable_controller(world: MemberWorld) -> None:
    member = world.start(1)
    world.run(world.controller.stop())
    began_ms = world.env.monotonic_ms()
    world.stop(member)
    assert world.env.monotonic_ms() - began_ms < 5_000
    world.start_controller()


def test_broker_start_on_a_new_directory_is_not_reported_as_a_crash(world: MemberWorld) -> None:
    member = world.start(1)
    assert member.server.directory.unreadable == []
    assert member.server._last_stop == "none"
    with member.connect() as client:
        topic_id = created(client, "t").topic_id
        world.sleep(50)
        produce(client, topic_id)
    for is_killed, expected in ((False, "clean"), (True, "crash")):
        world.kill(member) if is_killed else world.stop(member)
        member = world.start(1)
        assert member.server._last_stop == expected
    world.stop(member)


def test_previous_broker_epoch_distinguishes_a_clean_stop_from_a_crash(world: MemberWorld) -> None:
    """A broker that may have lost committed records is removed from the in-sync and eligible replicas (KIP-966)."""
    member = world.start(1)
    epoch = member.server.metadata.broker_epoch
    assert epoch > 0
    world.stop(member)
    member = world.start(1)
    assert member.server.metadata.lifecycle.identity.previous_epoch == epoch  # type: ignore[attr-defined]
    world.kill(member)
    member = world.start(1)
    assert member.server.metadata.lifecycle.identity.previous_epoch == -1  # type: ignore[attr-defined]
    world.stop(member)


def test_broker_start_that_waits_for_its_controller_can_be_cancelled(world: MemberWorld) -> None:
    world.run(world.controller.stop())
    world.format(1)
    server = BrokerServer(cast(Any, world.env), BrokerConfig(world.settings_of(1)))
    starting = server.start()
    drive(starting, world.env.call_soon, lambda error: pytest.fail("the start has ended"))
    world.sleep(1_000)
    starting.close()
    world.start_controller()
    world.stop(world.start(1))


def test_broker_of_a_cluster_refuses_reset_and_snapshot(world: MemberWorld, member: Member) -> None:
    serving = Serving(cast(Any, world.env), lambda *_: member.server)
    for replaced in (serving.reset(), serving.snapshot("/copy")):
        with pytest.raises(DirectoryError, match="belongs to a cluster"):
            world.run(replaced)
    assert not world.fs.is_dir("/copy")


def test_broker_of_a_cluster_refuses_a_directory_without_cluster_id(world: MemberWorld) -> None:
    world.fs.make_dir("/broker-5")
    world.format = lambda node_id: None  # type: ignore[method-assign]
    with pytest.raises(DirectoryError, match="belongs to no cluster yet"):
        world.start(5)


def test_broker_start_fails_when_its_controller_is_unreachable(world: MemberWorld) -> None:
    world.run(world.controller.stop())
    with pytest.raises(ConfigError, match=r"did not catch up with the controller at .* within 30000 ms"):
        world.start(1)
    world.start_controller()


@pytest.mark.parametrize("after_ms", [0, 4_000])
def test_topic_is_created_soon_after_a_controller_change(
    world: MemberWorld, member: Member, client: SimulatedClient, after_ms: int
) -> None:
    """The previous controller's machine failed without closing connections, so brokers still consider them open."""
    assert created(client, "before").error_code == 0
    # A transport marked as closed drops all data and does not report the end of the connection.
    for connection in world.controller.connections._open:
        cast(Any, connection)._transport.is_closed = True
    world.run(world.controller.stop())
    world.start_controller()
    world.sleep(after_ms)
    began_ms = world.env.monotonic_ms()
    while created(client, "t").error_code != 0:
        # Clients retry after REQUEST_TIMED_OUT.
        world.sleep(100)
    assert world.env.monotonic_ms() - began_ms < 4_000


@pytest.mark.parametrize(("key", "text"), [("bootstrap.servers", "a:1,b:2"), ("voters", "1@a:1,2@b:1"), ("voters", "")])
def test_controller_quorum_voters_must_name_exactly_one_controller(key: str, text: str) -> None:
    world = MemberWorld({"controller.quorum.bootstrap.servers": "", f"controller.quorum.{key}": text})
    with pytest.raises(ConfigError, match="give one controller"):
        world.start(1)
    world.close()


def test_three_brokers_replicate_and_fail_over(world: MemberWorld) -> None:
    members = {node_id: world.start(node_id) for node_id in (1, 2, 3)}
    with members[1].connect() as client:
        topic = CreatableTopic(name="t", num_partitions=3, replication_factor=3)
        (result,) = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=5_000)).topics
        world.sleep(500)
        leaders = [p.leader_id for p in described(client, "t").partitions]
    assert sorted(leaders) == [1, 2, 3]

    def write(index: int) -> None:
        leader = described_leader(members, index)
        with members[leader].connect() as client:
            assert produce(client, result.topic_id, index) == Code.NONE

    for index in range(3):
        write(index)
    world.sleep(1_000)
    ends = {(i, p.log.partition): p.log.high_watermark for i, m in members.items() for p in m.server.partitions}
    assert set(ends.values()) == {1}
    assert len(ends) == 9

    world.kill(members.pop(1))
    world.sleep(15_000)
    assert described_leader(members, leaders.index(1)) in (2, 3)
    for index in range(3):
        write(index)
    members[1] = world.start(1)
    world.sleep(5_000)
    assert {p.log.high_watermark for m in members.values() for p in m.server.partitions} == {2}
    assert all(len(p.isr) == 3 for p in world.controller.cluster.state.topics["t"].partitions)
    for node_id in (1, 2, 3):
        world.stop(members[node_id])


def described_leader(members: dict[int, Member], index: int) -> int:
    with next(iter(members.values())).connect() as client:
        leader: int = described(client, "t").partitions[index].leader_id
        return leader


def test_unregistered_broker_registers_again(world: MemberWorld, member: Member, client: SimulatedClient) -> None:
    before = member.server.metadata.broker_epoch
    assert client.call(UnregisterBrokerRequest(broker_id=1)).error_code == Code.NONE
    world.sleep(5_000)
    assert member.server.metadata.broker_epoch > before
    registered = world.controller.cluster.state.registrations.brokers[1]
    assert (registered.broker_epoch, registered.is_fenced) == (member.server.metadata.broker_epoch, False)
    topic_id = created(client, "t").topic_id
    world.sleep(100)
    assert produce(client, topic_id) == Code.NONE


def test_partition_has_no_leader_after_its_last_broker_is_unregistered(
    world: MemberWorld, member: Member, client: SimulatedClient
) -> None:
    topic_id = created(client, "t").topic_id
    world.sleep(100)
    assert produce(client, topic_id) == Code.NONE
    assert client.call(UnregisterBrokerRequest(broker_id=1)).error_code == Code.NONE
    world.sleep(20)
    assert produce(client, topic_id) == Code.NOT_LEADER_OR_FOLLOWER
    world.sleep(5_000)
    assert produce(client, topic_id) == Code.NONE


def test_concurrent_stop_calls_stop_the_broker_once(world: MemberWorld, member: Member) -> None:
    left = 0
    leave = member.server.metadata.leave

    async def leave_once() -> None:
        nonlocal left
        left += 1
        await leave()

    member.server.metadata.leave = leave_once  # type: ignore[method-assign]

    ended: list[Exception | None] = []
    drive(member.server.stop(), world.env.call_soon, ended.append)
    world.run(member.server.stop())
    world.sleep(1_000)
    assert (left, ended) == (1, [None])


def test_broker_of_another_cluster_is_refused(world: MemberWorld) -> None:
    world.fs.make_dir("/broker-1")
    another = DirectoryIdentity(cluster_id="BBBBBBBBBBBBBBBBBBBBBQ", node_id=1, directory_id=uuid_text(b"1" * 16))
    write_identity(world.fs, "/broker-1", another)
    began_ms = world.env.monotonic_ms()
    refused = (
        "belongs to another cluster than this broker, whose directory has the cluster id BBBBBBBBBBBBBBBBBBBBBQ: give the address"
    )
    with pytest.raises(ConfigError, match=refused):
        world.start(1)
    assert world.env.monotonic_ms() - began_ms < 5_000, "the broker gives up without retrying"


def test_second_broker_with_the_same_id_is_refused(world: MemberWorld, member: Member) -> None:
    """The second broker has its own directory with the same broker id, and another port."""
    settings = {**world.settings_of(1), "log.dirs": "/copy", "listeners": "PLAINTEXT://127.0.0.1:9199"}
    world.fs.make_dir("/copy")
    write_identity(world.fs, "/copy", DirectoryIdentity(cluster_id=CLUSTER_ID, node_id=1, directory_id=uuid_text(b"2" * 16)))
    second = BrokerServer(cast(Any, world.env), BrokerConfig(settings))
    with pytest.raises(ConfigError, match="DUPLICATE_BROKER_REGISTRATION"):
        world.run(second.start())
    assert member.server.metadata.lifecycle.state is BrokerState.RUNNING  # type: ignore[attr-defined]


def test_failed_creation_of_a_coordinator_topic_is_retried_after_a_delay() -> None:
    world = MemberWorld({"transaction.state.log.replication.factor": "3"})
    member = world.start(1)
    with member.connect() as client:
        for _ in range(20):
            answer = client.call(FindCoordinatorRequest(key_type=1, coordinator_keys=["tx"]))
            assert answer.coordinators[0].error_code == Code.COORDINATOR_NOT_AVAILABLE
            world.sleep(20)
    asked = world.controller.counters.requests
    assert sum(count for (key, _), count in asked.items() if key == 19) == 1
    world.stop(member)
    world.close()
    assert world.bugs == 0


def test_broker_stops_on_lost_metadata_and_recovers_after_a_restart(world: MemberWorld) -> None:
    """The controller's directory is restored from an older copy, so only this broker has the newer metadata."""
    reasons: list[DirectoryError] = []
    member = world.start(1, Host(give_up=reasons.append))
    with member.connect() as client:
        assert created(client, "kept").error_code == Code.NONE
        kept = {path: bytes(content) for path, content in world.fs._files.items() if path.startswith("/controller/")}
        assert created(client, "lost").error_code == Code.NONE
    world.run(world.controller.stop())
    for path in [path for path in world.fs._files if path.startswith("/controller/")]:
        world.fs.unlink(path)
    for path, content in kept.items():
        world.fs.write_file(path, content)
    world.start_controller()
    world.sleep(10_000)
    assert len(reasons) == 1 and "restart this broker" in str(reasons[0])
    world.stop(member)
    again = world.start(1)
    assert set(again.server.cluster.state.topics) == {"kept"}
    with again.connect() as client:
        kept_id = again.server.cluster.state.topics["kept"].topic_id
        assert produce(client, kept_id) == Code.NONE
    world.stop(again)


@pytest.mark.parametrize(
    ("name", "setting"),
    [("__transaction_state", "transaction.state.log.min.isr"), ("__share_group_state", "share.coordinator.state.topic.min.isr")],
)
def test_coordinator_topic_has_the_brokers_min_insync_replicas(name: str, setting: str) -> None:
    world = MemberWorld({setting: "2", "min.insync.replicas": "1"})
    member = world.start(1)
    with member.connect() as client:
        described(client, name)
        world.sleep(100)
    assert world.controller.cluster.state.config_of(TOPIC_RESOURCE, name)["min.insync.replicas"] == "2"
    assert member.server.partitions.get(name, 0).log.config.min_insync_replicas == 2
    world.stop(member)
    world.close()
    assert world.bugs == 0


def test_auto_created_topic_has_the_brokers_defaults() -> None:
    """As in Apache Kafka, the broker sends its own defaults to the controller (AutoTopicCreationManager)."""
    world = MemberWorld({"num.partitions": "3", "default.replication.factor": "2"})
    members = [world.start(number) for number in (1, 2)]
    with members[0].connect() as client:
        described(client, "auto")
        world.sleep(100)
        assert [len(p.replica_nodes) for p in described(client, "auto").partitions] == [2, 2, 2]
        assert created(client, "of-controller", -1, -1).replication_factor == 1
    for member in members:
        world.stop(member)
    world.close()
    assert world.bugs == 0


def test_leader_uses_the_cluster_min_insync_replicas(world: MemberWorld) -> None:
    """The controller decides by the cluster's value which replicas are eligible (KIP-966), so leaders must use the same value."""
    world.settings["min.insync.replicas"] = "2"
    member = world.start(1)
    with member.connect() as client:
        created(client, "t")
        world.sleep(50)
        partition = member.server.partitions.get("t", 0)
        assert partition.log.config.min_insync_replicas == 1
        assert alter(client, (4, "", "min.insync.replicas", "3")) == [(Code.NONE, 4, None)]
        world.sleep(50)
        assert partition.log.config.min_insync_replicas == 3
    world.stop(member)
