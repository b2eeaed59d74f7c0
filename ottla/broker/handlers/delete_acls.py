"""DeleteAcls, versions 1 to 3: deletes the ACLs that match filters; without an authorizer each filter is refused.

Version 3 (KIP-373) adds users as resources.
"""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations, check_cluster
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.handlers.support.acl_messages import filters_of
from ottla.broker.handlers.support.each import made
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ottla.security.acl.bindings import AclBinding
from ottla.security.acl.codes import AclOperation


class Ports(Protocol):
    authorizer: RequestAuthorizer
    cluster: ClusterCommands


async def handle(ports: Ports, request: DeleteAclsRequest, context: RequestContext) -> DeleteAclsResponse:
    filters = await made(lambda: filters_of(request.filters), len(request.filters))
    if not ports.authorizer.is_enabled:
        refused = DeleteAclsFilterResult(error_code=Code.SECURITY_DISABLED, error_message="No Authorizer is configured.")
        return DeleteAclsResponse(throttle_time_ms=0, filter_results=[refused] * len(request.filters))
    results: list[list[AclBinding] | KafkaError]
    try:
        check_cluster(ports.authorizer, context, AclOperation.ALTER)
        results = await ports.cluster.delete_acls(filters)
    except KafkaError as error:
        results = [error] * len(request.filters)
    count = sum(1 if isinstance(result, KafkaError) else 1 + len(result) for result in results)
    return await made(lambda: DeleteAclsResponse(throttle_time_ms=0, filter_results=list(map(_result, results))), count)


def _result(result: list[AclBinding] | KafkaError) -> DeleteAclsFilterResult:
    if isinstance(result, KafkaError):
        return DeleteAclsFilterResult(error_code=result.code, error_message=result.message)
    return DeleteAclsFilterResult(error_code=0, error_message=None, matching_acls=[_deleted(acl) for acl in result])


def _deleted(acl: AclBinding) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_code=0,
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def failed(request: DeleteAclsRequest, version: int, code: Code) -> DeleteAclsResponse:
    refused = DeleteAclsFilterResult(error_code=code, error_message=None)
    return DeleteAclsResponse(throttle_time_ms=0, filter_results=[refused] * len(request.filters))


API = Declaration(key=31, handle=handle, failed=failed, authorisation=authorisations("ALTER CLUSTER", by_handler=True))
