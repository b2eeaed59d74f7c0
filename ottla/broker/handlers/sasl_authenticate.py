"""SaslAuthenticate, versions 0 to 2 (KIP-152): refused as in Kafka on a listener without SASL, and after authentication.

During authentication `broker.network.sasl_dispatch` handles the request.

Since version 1 (KIP-368) the response has the session's lifetime.
"""

from __future__ import annotations

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import UNRESTRICTED
from ottla.protocol.errors import Code
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse


async def handle(ports: object, request: SaslAuthenticateRequest, context: RequestContext) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=Code.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
        auth_bytes=b"",
    )


def failed(request: SaslAuthenticateRequest, version: int, code: Code) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=code, error_message=None, auth_bytes=b"")


API = Declaration(key=36, handle=handle, failed=failed, authorisation=UNRESTRICTED, has_secrets=True)
