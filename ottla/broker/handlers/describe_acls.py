"""DescribeAcls, versions 1 to 3: returns the ACLs that match a filter; without an authorizer the request is refused.

Version 3 (KIP-373) adds users as resources.
"""

from __future__ import annotations

from itertools import groupby
from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations, check_cluster
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.handlers.support.acl_messages import filters_of
from ottla.broker.metadata.cluster import ClusterCommands, acls_at_once
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from ottla.protocol.steps import in_thread
from ottla.security.acl.bindings import AclBinding
from ottla.security.acl.codes import AclOperation


class Ports(Protocol):
    authorizer: RequestAuthorizer
    cluster: ClusterCommands


async def handle(ports: Ports, request: DescribeAclsRequest, context: RequestContext) -> DescribeAclsResponse:
    (selects,) = filters_of([request])
    try:
        check_cluster(ports.authorizer, context, AclOperation.DESCRIBE)
    except KafkaError as error:
        return DescribeAclsResponse(throttle_time_ms=0, error_code=error.code, error_message=error.message)
    if not ports.authorizer.is_enabled:
        return DescribeAclsResponse(
            throttle_time_ms=0, error_code=Code.SECURITY_DISABLED, error_message="No Authorizer is configured on the broker"
        )
    acls, resources = ports.cluster.state.acls, list[DescribeAclsResource]()

    def describe() -> None:
        resources.extend(_resources(acls.matching(selects)))

    if len(acls.by_id) <= acls_at_once():
        describe()
    else:
        await in_thread(describe)
    return DescribeAclsResponse(throttle_time_ms=0, error_code=0, error_message="", resources=resources)


def _resources(acls: list[AclBinding]) -> list[DescribeAclsResource]:
    return [
        DescribeAclsResource(
            resource_type=resource_type, resource_name=name, pattern_type=pattern_type, acls=[_entry(acl) for acl in of_one]
        )
        for (resource_type, name, pattern_type), of_one in groupby(acls, lambda acl: acl[:3])
    ]


def _entry(acl: AclBinding) -> AclDescription:
    return AclDescription(principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission)


def failed(request: DescribeAclsRequest, version: int, code: Code) -> DescribeAclsResponse:
    return DescribeAclsResponse(throttle_time_ms=0, error_code=code, error_message=None)


API = Declaration(
    key=29,
    handle=handle,
    failed=failed,
    authorisation=authorisations("DESCRIBE CLUSTER", by_handler=True),
    is_bulky=True,
)
