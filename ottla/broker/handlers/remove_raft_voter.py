"""RemoveRaftVoter, version 0 (KIP-853): refused, because a single node keeps the metadata log."""

from __future__ import annotations

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.handlers.support.quorum_changes import Ports, check_voter
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse


async def handle(ports: Ports, request: RemoveRaftVoterRequest, context: RequestContext) -> RemoveRaftVoterResponse:
    try:
        check_voter(ports, "Remove", request.cluster_id, request.voter_id, request.voter_directory_id)
    except KafkaError as error:
        return RemoveRaftVoterResponse(throttle_time_ms=0, error_code=error.code, error_message=error.message)
    # Even the voter of this node cannot be removed, because Kafka does not allow removing the last voter.
    reason = f"Cannot remove voter {request.voter_id} from the set of voters: it is the only voter."
    return RemoveRaftVoterResponse(throttle_time_ms=0, error_code=Code.VOTER_NOT_FOUND, error_message=reason)


def failed(request: RemoveRaftVoterRequest, version: int, code: Code) -> RemoveRaftVoterResponse:
    return RemoveRaftVoterResponse(throttle_time_ms=0, error_code=code, error_message=None)


API = Declaration(key=81, handle=handle, failed=failed, authorisation=authorisations("ALTER CLUSTER"))
