"""Blocks of producer ids from a controller elsewhere (RPCProducerIdManager)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.broker.membership.lifecycle import BrokerLifecycle
from ottla.broker.peers.peer import Peer
from ottla.broker.peers.requests import PeerFailure
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest

TIMEOUT_MS = 30_000


class ControllerProducerIds:
    """Requests blocks of producer ids from the controller (`broker.metadata.producer_ids.ProducerIdBlocks`)."""

    def __init__(self, lifecycle: BrokerLifecycle, controller: Peer) -> None:
        self._lifecycle = lifecycle
        self._controller = controller

    def allocate_producer_ids(self, then: Callable[[range | KafkaError], None]) -> None:
        """Call ``then`` later with the ids of a new block, or with COORDINATOR_LOAD_IN_PROGRESS, which clients retry."""
        request = AllocateProducerIdsRequest(
            broker_id=self._lifecycle.identity.broker_id, broker_epoch=self._lifecycle.broker_epoch
        )

        def answered(answer: Any) -> None:
            then(_refused(answer.reason) if isinstance(answer, PeerFailure) else _block(answer))

        self._controller.send(request, answered, timeout_ms=TIMEOUT_MS)


def _refused(reason: str) -> KafkaError:
    return KafkaError(Code.COORDINATOR_LOAD_IN_PROGRESS, reason)


def _block(answer: Any) -> range | KafkaError:
    if answer.error_code != Code.NONE:
        return _refused(f"the controller refused AllocateProducerIds with error {answer.error_code}")
    first, count = answer.producer_id_start, answer.producer_id_len
    if first < 0 or count <= 0:
        return _refused(f"the controller sent an invalid block of {count} producer ids from {first} on")
    return range(first, first + count)
