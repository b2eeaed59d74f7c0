"""SaslHandshake, versions 0 and 1 (KIP-43): refused as in Kafka on a listener without SASL, and after authentication.

During authentication `broker.network.sasl_dispatch` handles the request. After a handshake of version 1 (KIP-152) a client sends
SaslAuthenticate requests instead of bare tokens.
"""

from __future__ import annotations

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import UNRESTRICTED
from ottla.protocol.errors import Code
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


async def handle(ports: object, request: SaslHandshakeRequest, context: RequestContext) -> SaslHandshakeResponse:
    return failed(request, context.version, Code.ILLEGAL_SASL_STATE)


def failed(request: SaslHandshakeRequest, version: int, code: Code) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=code, mechanisms=[])


API = Declaration(key=17, handle=handle, failed=failed, authorisation=UNRESTRICTED, has_secrets=True)
