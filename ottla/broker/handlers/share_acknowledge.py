"""ShareAcknowledge, versions 1 and 2 (KIP-932): a member of a share group acknowledges records that it has acquired.

- 2 (KIP-1222): the member may renew the locks on records; the response has the duration of the locks in ms.
"""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.config.live_config import LiveConfig
from ottla.broker.coordinators.groups import Groups
from ottla.broker.coordinators.share_partitions import SharePartitions
from ottla.broker.handlers.support.each import made
from ottla.broker.handlers.support.share_acknowledgements import Outcomes, acknowledge_all, by_topic, code_and_message
from ottla.broker.handlers.support.share_leaders import name_leaders_for_acknowledge
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.coordinator.group.share.requests import check_member_id
from ottla.coordinator.share_state.sessions import FINAL_EPOCH, SessionKey
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.share_acknowledge import (
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)


class Ports(Protocol):
    authorizer: RequestAuthorizer
    groups: Groups
    cluster: ClusterCommands
    share_partitions: SharePartitions
    live_config: LiveConfig

    def advertised(self, listener: str) -> tuple[str, int]: ...


async def handle(ports: Ports, request: ShareAcknowledgeRequest, context: RequestContext) -> ShareAcknowledgeResponse:
    share_partitions = ports.share_partitions
    try:
        if not ports.groups.offers_share_protocol:
            raise KafkaError(Code.UNSUPPORTED_VERSION)
        group_id, member_id = request.group_id, request.member_id
        if group_id is None:
            raise KafkaError(Code.INVALID_REQUEST)
        check_member_id(member_id)
        assert member_id is not None
        session = SessionKey(group_id, member_id)
        share_partitions.sessions.acknowledge(session, request.share_session_epoch)
    except KafkaError as error:
        return failed(request, context.version, error.code)
    outcomes = await acknowledge_all(ports, session, request.topics, context, is_renewal=request.is_renew_ack)
    if request.share_session_epoch == FINAL_EPOCH:
        await share_partitions.end_session(session)
    lock_duration_ms = share_partitions.config(group_id).lock_duration_ms
    answer = await made(lambda: _answer(outcomes, lock_duration_ms), len(outcomes))
    if any(outcomes.values()):
        name_leaders_for_acknowledge(ports, context.listener, answer)
    return answer


def _answer(outcomes: Outcomes, lock_duration_ms: int) -> ShareAcknowledgeResponse:
    responses = []
    for topic_id, partitions in by_topic(outcomes).items():
        answers = []
        for partition, outcome in partitions.items():
            code, message = code_and_message(outcome)
            answers.append(PartitionData(partition_index=partition, error_code=code, error_message=message))
        responses.append(ShareAcknowledgeTopicResponse(topic_id=topic_id, partitions=answers))
    return ShareAcknowledgeResponse(acquisition_lock_timeout_ms=lock_duration_ms, responses=responses)


def failed(request: ShareAcknowledgeRequest, version: int, code: Code) -> ShareAcknowledgeResponse:
    return ShareAcknowledgeResponse(error_code=code)


API = Declaration(
    key=79,
    handle=handle,
    failed=failed,
    authorisation=authorisations("READ GROUP group_id, READ TOPIC"),
)
