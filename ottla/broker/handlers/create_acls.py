"""CreateAcls, versions 1 to 3: creates ACLs; without an authorizer each ACL is refused.

Version 3 (KIP-373) adds users as resources.
"""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations, check_cluster
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.handlers.support.acl_messages import acls_of
from ottla.broker.handlers.support.each import made
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from ottla.security.acl.bindings import AclBinding
from ottla.security.acl.codes import AclOperation


class Ports(Protocol):
    authorizer: RequestAuthorizer
    cluster: ClusterCommands


async def handle(ports: Ports, request: CreateAclsRequest, context: RequestContext) -> CreateAclsResponse:
    acls: list[AclBinding] | KafkaError
    try:
        acls = await made(lambda: acls_of(request.creations), len(request.creations))
    except KafkaError as error:
        acls = error
    if not ports.authorizer.is_enabled:
        refused = AclCreationResult(error_code=Code.SECURITY_DISABLED, error_message="No Authorizer is configured.")
        return CreateAclsResponse(throttle_time_ms=0, results=[refused] * len(request.creations))
    try:
        check_cluster(ports.authorizer, context, AclOperation.ALTER)
        if isinstance(acls, KafkaError):
            raise acls
        errors = await ports.cluster.create_acls(acls)
    except KafkaError as error:
        errors = [error] * len(request.creations)
    return await made(lambda: CreateAclsResponse(throttle_time_ms=0, results=list(map(_result, errors))), len(errors))


def _result(error: KafkaError | None) -> AclCreationResult:
    if error is None:
        return AclCreationResult(error_code=0, error_message="")
    return AclCreationResult(error_code=error.code, error_message=error.message)


def failed(request: CreateAclsRequest, version: int, code: Code) -> CreateAclsResponse:
    refused = AclCreationResult(error_code=code, error_message=None)
    return CreateAclsResponse(throttle_time_ms=0, results=[refused] * len(request.creations))


API = Declaration(key=30, handle=handle, failed=failed, authorisation=authorisations("ALTER CLUSTER", by_handler=True))
