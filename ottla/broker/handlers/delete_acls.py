"""DeleteAcls, versions 1 to 3: refuses each filter, as Apache Kafka does without an authorizer.

All versions behave alike; 2 is the first flexible one, and 3 (KIP-373) adds users as resources.
"""

from __future__ import annotations

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.protocol.errors import Code
from ottla.protocol.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse


async def handle(ports: object, request: DeleteAclsRequest, context: RequestContext) -> DeleteAclsResponse:
    refused = DeleteAclsFilterResult(error_code=Code.SECURITY_DISABLED, error_message="No Authorizer is configured.")
    return DeleteAclsResponse(throttle_time_ms=0, filter_results=[refused] * len(request.filters))


def failed(request: DeleteAclsRequest, version: int, code: Code) -> DeleteAclsResponse:
    refused = DeleteAclsFilterResult(error_code=code, error_message=None)
    return DeleteAclsResponse(throttle_time_ms=0, filter_results=[refused] * len(request.filters))


API = Declaration(key=31, handle=handle, failed=failed, authorisation=authorisations("ALTER CLUSTER"))
