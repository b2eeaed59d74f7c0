"""DescribeAcls, versions 1 to 3: refused, as by Apache Kafka without an authorizer.

All versions behave alike; 2 is the first flexible one, and 3 (KIP-373) adds users as resources.
"""

from __future__ import annotations

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.protocol.errors import Code
from ottla.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse


async def handle(ports: object, request: DescribeAclsRequest, context: RequestContext) -> DescribeAclsResponse:
    if 0 in (request.resource_type_filter, request.pattern_type_filter, request.operation, request.permission_type):
        # Kafka closes the connection of such a client instead (DescribeAclsRequest.normalizeAndValidate).
        return DescribeAclsResponse(
            throttle_time_ms=0, error_code=Code.INVALID_REQUEST, error_message="DescribeAclsRequest contains UNKNOWN elements"
        )
    return DescribeAclsResponse(
        throttle_time_ms=0, error_code=Code.SECURITY_DISABLED, error_message="No Authorizer is configured on the broker"
    )


def failed(request: DescribeAclsRequest, version: int, code: Code) -> DescribeAclsResponse:
    return DescribeAclsResponse(throttle_time_ms=0, error_code=code, error_message=None)


API = Declaration(key=29, handle=handle, failed=failed, authorisation=authorisations("DESCRIBE CLUSTER"))
