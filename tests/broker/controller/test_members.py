"""Brokers register with a controller, keep their session by heartbeats, and are fenced or unregistered."""

from __future__ import annotations

from ottla.protocol.errors import Code
from ottla.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.unregister_broker import UnregisterBrokerRequest
from ottla.simulation.controller import NODE_ID, SimulatedController
from ottla.simulation.faulty_filesystem import FaultyFilesystem
from tests.broker.controller.world import Broker, uuid

SESSION_MS = 9_000


def test_registered_broker_is_unfenced_after_reading_the_metadata_log(controller: SimulatedController) -> None:
    broker = Broker(controller, 1, rack="r1")
    assert broker.register().error_code == Code.NONE
    before = broker.beat()
    assert (before.is_caught_up, before.is_fenced) == (False, True)
    broker.catch_up()
    assert broker.state.registrations.brokers[1].is_fenced
    after = broker.beat()
    assert (after.is_caught_up, after.is_fenced) == (True, False)
    broker.catch_up()
    known = broker.state.registrations.brokers[1]
    assert (known.is_fenced, known.rack, known.broker_epoch) == (False, "r1", broker.epoch)
    assert list(broker.state.registrations.controllers) == [NODE_ID]
    assert broker.state.features["metadata.version"] == 33
    assert "kraft.version" not in broker.state.features, "Kafka stores kraft.version in control records"


def test_invalid_broker_registrations_are_refused(controller: SimulatedController) -> None:
    broker = Broker(controller, 1)
    assert broker.register(cluster_id="another").error_code == Code.INCONSISTENT_CLUSTER_ID
    assert broker.register(log_dirs=[]).error_code == Code.INVALID_REGISTRATION
    broker.join()
    twin = Broker(controller, 1)
    twin.incarnation += 1
    assert twin.register().error_code == Code.DUPLICATE_BROKER_REGISTRATION
    controller.sleep(SESSION_MS + 1)
    assert twin.register().error_code == Code.NONE
    assert broker.beat().error_code == Code.STALE_BROKER_EPOCH


def test_silent_broker_is_fenced_until_its_next_heartbeat(controller: SimulatedController) -> None:
    one, two = Broker(controller, 1).join(), Broker(controller, 2).join()
    for _ in range(4):
        controller.sleep(SESSION_MS / 3)
        one.beat()
    one.catch_up()
    assert [one.state.registrations.brokers[n].is_fenced for n in (1, 2)] == [False, True]
    two.catch_up()
    assert not two.beat().is_fenced


def test_controlled_shutdown_fences_the_broker(controller: SimulatedController) -> None:
    broker = Broker(controller, 1).join()
    assert broker.beat(want_shut_down=True).should_shut_down
    broker.catch_up()
    assert broker.state.registrations.brokers[1].is_fenced


def test_controller_restart_starts_new_broker_sessions(controller: SimulatedController) -> None:
    broker = Broker(controller, 1).join()
    controller.sleep(SESSION_MS - 100)
    controller.restart(kill=True)
    broker.client = controller.connect()
    controller.sleep(SESSION_MS - 100)
    assert not controller.server.controller.state.registrations.brokers[1].is_fenced
    assert not broker.beat().is_fenced


def test_unregistered_broker_is_removed_from_the_metadata(controller: SimulatedController) -> None:
    broker = Broker(controller, 1).join()
    other = controller.connect()
    assert other.call(UnregisterBrokerRequest(broker_id=7)).error_code == Code.BROKER_ID_NOT_REGISTERED
    assert other.call(UnregisterBrokerRequest(broker_id=1)).error_code == Code.NONE
    assert broker.beat().error_code == Code.STALE_BROKER_EPOCH


def test_producer_id_blocks_are_never_repeated(controller: SimulatedController) -> None:
    brokers = [Broker(controller, n).join() for n in (1, 2)]
    ids: list[int] = []
    for broker in brokers * 2:
        answer = broker.client.call(AllocateProducerIdsRequest(broker_id=broker.broker_id, broker_epoch=broker.epoch))
        ids += range(answer.producer_id_start, answer.producer_id_start + answer.producer_id_len)
    controller.restart(kill=True)
    stale = controller.connect().call(AllocateProducerIdsRequest(broker_id=1, broker_epoch=brokers[1].epoch))
    assert stale.error_code == Code.STALE_BROKER_EPOCH
    answer = controller.connect().call(AllocateProducerIdsRequest(broker_id=1, broker_epoch=brokers[0].epoch))
    ids += range(answer.producer_id_start, answer.producer_id_start + answer.producer_id_len)
    assert len(ids) == len(set(ids)) == 5_000


def test_broker_registration_with_too_many_directories_is_refused(controller: SimulatedController) -> None:
    broker = Broker(controller, 1)
    assert broker.register(log_dirs=[uuid(n) for n in range(101)]).error_code == Code.INVALID_REGISTRATION


def test_api_versions_of_a_controller_lists_controller_apis_only(controller: SimulatedController) -> None:
    answer = controller.connect().call(ApiVersionsRequest(client_software_name="test", client_software_version="1"))
    offered = {api.api_key for api in answer.api_keys}
    assert {1, 18, 56, 58, 62, 63, 64, 67} <= offered
    assert not {0, 3, 11} & offered, "clients do not produce to a controller"


def test_broker_session_that_expires_while_the_controllers_disk_is_full_is_fenced_later() -> None:
    files = FaultyFilesystem()
    controller = SimulatedController(fs=files).start()
    Broker(controller, 1).join()
    files.refuse_everything()
    controller.sleep(20_000)
    files.refuse_nothing()
    assert not controller.server.controller.state.registrations.brokers[1].is_fenced
    controller.sleep(20_000)
    assert controller.server.controller.state.registrations.brokers[1].is_fenced
    controller.close()
    assert controller.bugs == 0
