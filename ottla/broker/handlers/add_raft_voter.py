"""AddRaftVoter, versions 0 and 1 (KIP-853): refused, because a single node keeps the metadata log.

- 1: the client may have the response wait until the change is committed.
"""

from __future__ import annotations

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.config.settings import CONTROLLER_LISTENER
from ottla.broker.handlers.support.quorum_changes import Ports, check_voter
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse


async def handle(ports: Ports, request: AddRaftVoterRequest, context: RequestContext) -> AddRaftVoterResponse:
    try:
        _check(ports, request)
    except KafkaError as error:
        return AddRaftVoterResponse(throttle_time_ms=0, error_code=error.code, error_message=error.message)
    raise AssertionError("a voter was accepted")


def _check(ports: Ports, request: AddRaftVoterRequest) -> None:
    check_voter(ports, "Add", request.cluster_id, request.voter_id, request.voter_directory_id)
    expected = (ports.live_config.settings.controller_listener_names or (CONTROLLER_LISTENER,))[0]
    if not any(listener.name == expected for listener in request.listeners):
        reason = f"Add voter request didn't include the endpoint for the default listener {expected}"
        raise KafkaError(Code.INVALID_REQUEST, reason)
    if request.voter_id == ports.live_config.settings.node_id:
        reason = f"The voter id {request.voter_id} is already part of the set of voters."
        raise KafkaError(Code.DUPLICATE_VOTER, reason)
    # A Kafka cluster with kraft.version 0, to which no voter can be added, also returns UNSUPPORTED_VERSION.
    raise KafkaError(Code.UNSUPPORTED_VERSION, "Cluster doesn't support adding voter because ottla supports only one controller")


def failed(request: AddRaftVoterRequest, version: int, code: Code) -> AddRaftVoterResponse:
    return AddRaftVoterResponse(throttle_time_ms=0, error_code=code, error_message=None)


API = Declaration(key=80, handle=handle, failed=failed, authorisation=authorisations("ALTER CLUSTER"))
