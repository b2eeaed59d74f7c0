"""CreateAcls, versions 1 to 3: refuses each ACL, as Apache Kafka does without an authorizer.

All versions behave alike; 2 is the first flexible one, and 3 (KIP-373) adds users as resources.
"""

from __future__ import annotations

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.protocol.errors import Code
from ottla.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse


async def handle(ports: object, request: CreateAclsRequest, context: RequestContext) -> CreateAclsResponse:
    refused = AclCreationResult(error_code=Code.SECURITY_DISABLED, error_message="No Authorizer is configured.")
    return CreateAclsResponse(throttle_time_ms=0, results=[refused] * len(request.creations))


def failed(request: CreateAclsRequest, version: int, code: Code) -> CreateAclsResponse:
    refused = AclCreationResult(error_code=code, error_message=None)
    return CreateAclsResponse(throttle_time_ms=0, results=[refused] * len(request.creations))


API = Declaration(key=30, handle=handle, failed=failed, authorisation=authorisations("ALTER CLUSTER"))
