"""ElectLeaders, versions 0 to 2 (KIP-183): elects the preferred leaders of partitions.

- 1 (KIP-460): the client may request an unclean election, whose leader may lack committed records; the whole response has an error
  code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ottla.broker.apis.api import RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.controller.metadata import ControllerMetadata
from ottla.broker.controller.services import ControllerDeclaration
from ottla.broker.handlers.elect_leaders import failed
from ottla.coordinator.controller.elections import PREFERRED_ELECTION, UNCLEAN_ELECTION
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from ottla.protocol.steps import next_turn

ELECTIONS_PER_STEP = 100
"""Maximum number of elections in one step, which takes a few milliseconds and appends one batch."""
TYPES_FROM = 1


class Ports(Protocol):
    controller: ControllerMetadata


async def handle(ports: Ports, request: ElectLeadersRequest, context: RequestContext) -> ElectLeadersResponse:
    election_type = request.election_type if context.version >= TYPES_FROM else PREFERRED_ELECTION
    # As in Kafka, the election type of a request with an empty list of topics is not checked.
    if election_type not in (PREFERRED_ELECTION, UNCLEAN_ELECTION) and request.topic_partitions != []:
        raise KafkaError(Code.INVALID_REQUEST)
    is_of_all = request.topic_partitions is None
    asked: list[tuple[str, Sequence[int]]]
    if request.topic_partitions is None:
        asked = [(topic.name, range(topic.partition_count)) for topic in ports.controller.state.topics.values()]
    else:
        asked = [(topic.topic, topic.partitions) for topic in request.topic_partitions]
    results = []
    decided = 0
    for name, indexes in asked:
        answers: dict[int, KafkaError | None] = {}
        for at in range(0, len(indexes), ELECTIONS_PER_STEP):
            some = indexes[at : at + ELECTIONS_PER_STEP]
            if decided + len(some) > ELECTIONS_PER_STEP:
                await next_turn()
                decided = 0
            decided += len(some)
            answers |= ports.controller.elect_leaders(election_type, name, some)
        # If the request is for all partitions, Kafka's response has only partitions that needed an election.
        shown = [_result(index, error) for index, error in answers.items() if not (is_of_all and _is_needless(error))]
        results.append(ReplicaElectionResult(topic=name, partition_result=shown))
    return ElectLeadersResponse(throttle_time_ms=0, error_code=0, replica_election_results=results)


def _is_needless(error: KafkaError | None) -> bool:
    return error is not None and error.code is Code.ELECTION_NOT_NEEDED


def _result(index: int, error: KafkaError | None) -> PartitionResult:
    if error is None:
        return PartitionResult(partition_id=index, error_code=0, error_message=None)
    return PartitionResult(partition_id=index, error_code=error.code, error_message=error.message)


API = ControllerDeclaration(key=43, handle=handle, failed=failed, authorisation=authorisations("ALTER CLUSTER"), is_bulky=True)
