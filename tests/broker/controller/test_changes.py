"""A controller logs and counts fencing, elections and in-sync changes once each, with the reason."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import pytest
from structlog.testing import capture_logs

from ottla.broker.controller import changes
from ottla.broker.metrics.controller_metrics import controller_metrics
from ottla.protocol.messages.alter_partition import AlterPartitionRequest, BrokerState, PartitionData, TopicData
from ottla.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.protocol.messages.unregister_broker import UnregisterBrokerRequest
from ottla.simulation.controller import SimulatedController
from ottla.simulation.faulty_filesystem import FaultyFilesystem
from tests.broker.controller.world import Broker

SESSION_MS = 9_000
Line = MutableMapping[str, Any]


@pytest.fixture
def brokers(controller: SimulatedController) -> list[Broker]:
    return [Broker(controller, number).join() for number in (1, 2, 3)]


def create(controller: SimulatedController, *replicas: list[int], name: str = "t") -> None:
    assignments = [CreatableReplicaAssignment(partition_index=n, broker_ids=ids) for n, ids in enumerate(replicas)]
    topic = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=assignments)
    assert controller.connect().call(CreateTopicsRequest(topics=[topic])).topics[0].error_code == 0


def silence(controller: SimulatedController, *alive: Broker) -> None:
    """Let the sessions of all brokers except `alive` expire."""
    for _ in range(4):
        controller.sleep(SESSION_MS / 3)
        for broker in alive:
            broker.beat()


def lines_of(lines: list[Line], event: str) -> list[Line]:
    return [line for line in lines if line["event"] == event]


def values(controller: SimulatedController) -> dict[str, float]:
    names = {}
    for metric in controller_metrics(controller.server.controller.report()):
        for sample in metric.samples:
            labels = "".join(f"_{value}" for value in sample.labels.values())
            names[sample.name.removeprefix("kafka_controller_") + labels] = sample.value
    return names


def test_expired_broker_session_is_logged_with_the_resulting_elections(
    controller: SimulatedController, brokers: list[Broker]
) -> None:
    create(controller, [1, 2, 3], [2, 1, 3])
    with capture_logs() as lines:
        silence(controller, *brokers[1:])
    [fenced] = lines_of(lines, "broker_fenced")
    assert (fenced["broker_id"], fenced["broker_epoch"]) == (1, brokers[0].epoch)
    assert fenced["reason"] == "the broker sent no heartbeat for 9000 ms"
    [elected] = lines_of(lines, "leader_elected")
    assert (elected["topic"], elected["partition"], elected["leader"], elected["previous_leader"]) == ("t", 0, 2, 1)
    assert (elected["election"], elected["leader_epoch"], elected["isr"]) == ("clean", 1, [2, 3])
    assert elected["reason"] == "broker 1 sent no heartbeat for 9000 ms"
    [changed] = lines_of(lines, "in_sync_changed")
    assert (changed["partition"], changed["isr"], changed["previous_isr"]) == (1, [2, 3], [2, 1, 3])
    assert changed["reason"] == elected["reason"]
    assert values(controller)["ottla_controller_expired_sessions_total"] == 1


def test_metrics_show_state_and_last_heartbeat_of_each_broker(controller: SimulatedController, brokers: list[Broker]) -> None:
    create(controller, [3, 2])
    assert not brokers[2].beat(want_shut_down=True).should_shut_down, "broker 3 leads a partition"
    controller.sleep(SESSION_MS / 3)
    brokers[1].beat()
    brokers[2].beat(want_shut_down=True)
    controller.sleep(SESSION_MS / 3)
    counted = values(controller)
    assert [counted[f"kafkacontroller_brokerregistrationstate_{n}"] for n in (1, 2, 3)] == [30, 30, 20]
    silence_ms = [counted[f"kafkacontroller_timesincelastheartbeatreceivedms_{n}"] for n in (1, 2, 3)]
    assert silence_ms[0] - silence_ms[1] >= SESSION_MS / 3 and SESSION_MS / 3 <= silence_ms[1] < SESSION_MS
    silence(controller, *brokers[1:])
    counted = values(controller)
    assert counted["kafkacontroller_brokerregistrationstate_1"] == 10
    assert counted["kafkacontroller_timesincelastheartbeatreceivedms_1"] == SESSION_MS


def test_unfencing_of_a_broker_is_logged_once(controller: SimulatedController) -> None:
    with capture_logs() as lines:
        broker = Broker(controller, 1).join()
        broker.beat()
    [unfenced] = lines_of(lines, "broker_unfenced")
    assert unfenced["reason"] == "the broker has read the metadata log up to its registration"


def test_reason_of_fencing_a_broker_is_logged(controller: SimulatedController, brokers: list[Broker]) -> None:
    with capture_logs() as lines:
        assert brokers[0].beat(want_shut_down=True).should_shut_down
        assert brokers[1].beat(want_fence=True).is_fenced
        controller.connect().call(UnregisterBrokerRequest(broker_id=3))
    assert [(line["broker_id"], line["reason"]) for line in lines_of(lines, "broker_fenced")] == [
        (1, "the broker is shutting down"),
        (2, "the broker requested it"),
    ]
    [unregistered] = lines_of(lines, "broker_unregistered")
    assert unregistered["reason"] == "a client requested it"
    counted = values(controller)
    assert counted["ottla_controller_expired_sessions_total"] == 0
    assert "kafkacontroller_brokerregistrationstate_3" not in counted


def test_restart_of_a_fenced_broker_logs_no_second_fencing(controller: SimulatedController, brokers: list[Broker]) -> None:
    create(controller, [1, 2])
    brokers[0].beat(want_shut_down=True)
    brokers[0].incarnation += 1
    create(controller, [2, 3], name="u")
    silence(controller, brokers[2])
    brokers[1].incarnation += 1
    with capture_logs() as lines:
        assert brokers[1].register().error_code == 0
    assert not lines_of(lines, "broker_fenced"), "the broker was already fenced"
    assert not lines_of(lines, "leader_elected")


def test_partition_without_leader_is_logged_and_counted(controller: SimulatedController, brokers: list[Broker]) -> None:
    create(controller, [1])
    create(controller, [2, 1], name="u")
    with capture_logs() as lines:
        silence(controller, *brokers[1:])
    [lost] = lines_of(lines, "leader_lost")
    assert (lost["topic"], lost["partition"], lost["previous_leader"], lost["log_level"]) == ("t", 0, 1, "warning")
    assert lines_of(lines, "broker_fenced")[0]["log_level"] == "warning"
    counted = values(controller)
    assert counted["kafkacontroller_offlinepartitionscount"] == 1
    assert counted["kafkacontroller_preferredreplicaimbalancecount"] == 1
    assert (counted["kafkacontroller_fencedbrokercount"], counted["kafkacontroller_activebrokercount"]) == (1, 2)
    assert (counted["kafkacontroller_globaltopiccount"], counted["kafkacontroller_globalpartitioncount"]) == (2, 2)
    assert counted["kafkacontroller_activecontrollercount"] == 1
    last = controller.server.controller.end_offset - 1
    assert counted["kafkacontroller_lastappliedrecordoffset"] == counted["kafkacontroller_lastcommittedrecordoffset"] == last


def test_change_of_in_sync_replicas_is_logged_with_the_requesting_leader(
    controller: SimulatedController, brokers: list[Broker]
) -> None:
    create(controller, [1, 2, 3])
    topic_id = controller.server.controller.state.topics["t"].topic_id
    states = [BrokerState(broker_id=n, broker_epoch=brokers[n - 1].epoch) for n in (1, 3)]
    asked = PartitionData(partition_index=0, leader_epoch=0, new_isr_with_epochs=states, partition_epoch=0)
    topics = [TopicData(topic_id=topic_id, partitions=[asked])]
    with capture_logs() as lines:
        brokers[0].client.call(AlterPartitionRequest(broker_id=1, broker_epoch=brokers[0].epoch, topics=topics))
    [changed] = lines_of(lines, "in_sync_changed")
    assert (changed["isr"], changed["previous_isr"], changed["reason"]) == (
        [1, 3],
        [1, 2, 3],
        "the leader, broker 1, requested it",
    )


def test_unclean_election_is_counted_and_logged_as_a_warning(controller: SimulatedController, brokers: list[Broker]) -> None:
    create(controller, [1, 2])
    silence(controller, *brokers[1:])
    silence(controller, brokers[2])
    for broker in brokers[:1]:
        broker.join_again()
    request = ElectLeadersRequest(election_type=1, topic_partitions=[TopicPartitions(topic="t", partitions=[0])])
    with capture_logs() as lines:
        controller.connect().call(request)
    [elected] = lines_of(lines, "leader_elected")
    assert (elected["election"], elected["log_level"]) == ("unclean", "warning")
    assert elected["reason"] == "a client requested an unclean election"
    assert values(controller)["controllerstats_uncleanleaderelections_total"] == 1


def test_election_of_an_eligible_leader_replica_is_counted(controller: SimulatedController, brokers: list[Broker]) -> None:
    create(controller, [1, 2])
    state = controller.server.controller.state
    silence(controller, brokers[2])
    partition = state.topics["t"].partitions[0]
    assert (partition.leader, partition.isr, bool(partition.elr)) == (-1, (), True)
    with capture_logs() as lines:
        brokers[partition.elr[0] - 1].join_again()
    [elected] = lines_of(lines, "leader_elected")
    assert elected["election"] == "eligible"
    assert elected["reason"] == f"broker {partition.elr[0]} was unfenced"
    assert values(controller)["controllerstats_electionfromeligibleleaderreplicas_total"] == 1


def test_refused_controller_decision_is_neither_logged_nor_counted() -> None:
    files = FaultyFilesystem()
    controller = SimulatedController(fs=files).start()
    Broker(controller, 1).join()
    create(controller, [1])
    files.refuse_everything()
    with capture_logs() as lines:
        silence(controller)
    assert not lines_of(lines, "leader_lost") and not lines_of(lines, "broker_fenced")
    assert values(controller)["ottla_controller_expired_sessions_total"] == 0
    files.refuse_nothing()
    with capture_logs() as lines:
        silence(controller)
    assert len(lines_of(lines, "leader_lost")) == len(lines_of(lines, "broker_fenced")) == 1
    assert values(controller)["ottla_controller_expired_sessions_total"] == 1
    controller.close()


def test_number_of_log_lines_per_controller_decision_is_bounded(
    controller: SimulatedController, brokers: list[Broker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "MAX_LINES", 2)
    create(controller, [1, 2], [1, 2], [1, 2], [1, 2], [1, 2])
    with capture_logs() as lines:
        silence(controller, *brokers[1:])
    assert len(lines_of(lines, "leader_elected")) == 2
    [rest] = lines_of(lines, "more_partitions_changed")
    assert rest["partitions"] == 3
