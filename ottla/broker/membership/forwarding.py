"""Forwards clients' requests that the controller must handle, in envelopes (KIP-590; ForwardingManager)."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

import msgspec
import structlog

from ottla.broker.apis.api import Declared, RequestContext, RequestRefused
from ottla.broker.apis.registry import FORWARDED
from ottla.broker.loop.env import Clock
from ottla.broker.loop.repeated_errors import RepeatedErrors
from ottla.broker.peers.peer import Peer
from ottla.broker.peers.principals import principal_bytes
from ottla.broker.peers.requests import Failure, PeerFailure
from ottla.coordinator.metadata.cluster import BROKER_LOGGER_RESOURCE, BROKER_RESOURCE
from ottla.protocol.codec import DECODE_FAILURES, decode_response_frame, request_frame
from ottla.protocol.config_effects import LISTENER_PREFIX
from ottla.protocol.errors import Code
from ottla.protocol.messages.envelope import EnvelopeRequest
from ottla.protocol.remedies import name_of
from ottla.protocol.steps import Pause, in_thread

ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS = 33, 44
SIZE_BYTES = 4
TIMEOUT_MS = 30_000
"""Time limit for the controller's response, in ms (request.timeout.ms)."""

log = structlog.get_logger("membership")


class Forwarding:
    """Makes handlers that forward requests to the controller and return its response."""

    def __init__(self, clock: Clock, controller: Peer) -> None:
        self._controller = controller
        self._errors = RepeatedErrors(clock, log)
        self._next_correlation_id = 0

    def through(self, api: Declared[Any]) -> Declared[Any]:
        """The API with a handler that forwards its requests. An API that this broker handles itself is returned unchanged."""
        if api.key not in FORWARDED:
            return api

        async def forward(services: Any, request: Any, context: RequestContext) -> Any:
            refused = None if api.refused is None else api.refused(services, request, context)
            return await self._forwarded(api, request, context) if refused is None else refused

        async def split(services: Any, request: Any, context: RequestContext) -> Any:
            return await self._with_loggers(api, services, request, context)

        is_split = api.key in (ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS)
        return msgspec.structs.replace(api, handle=split if is_split else forward)

    async def _with_loggers(self, api: Declared[Any], services: Any, request: Any, context: RequestContext) -> Any:
        """Handle a request that alters configs: this broker handles its loggers, and the controller the rest (ConfigAdminManager).

        This broker also checks the configs of its listeners, because the controller cannot read the broker's key stores.
        """
        loggers = [r for r in request.resources if r.resource_type == BROKER_LOGGER_RESOURCE]
        checked = [r for r in request.resources if _is_of_listener(r, str(services.live_config.settings.node_id))]
        if not loggers and not checked:
            return await self._forwarded(api, request, context)
        own = await api.handle(services, msgspec.structs.replace(request, resources=loggers), context)
        check = msgspec.structs.replace(request, resources=checked, validate_only=True)
        own.responses += [r for r in (await api.handle(services, check, context)).responses if r.error_code]
        answered = {(r.resource_type, r.resource_name) for r in own.responses}
        others = [r for r in request.resources if (r.resource_type, r.resource_name) not in answered]
        if not others:
            return own
        response = await self._forwarded(api, msgspec.structs.replace(request, resources=others), context)
        response.responses = [*own.responses, *response.responses]
        return response

    async def _forwarded(self, api: Declared[Any], request: Any, context: RequestContext) -> Any:
        """Send a request to the controller; returns its response, or an error response for the whole request.

        Raises `RequestRefused` for a request for which the controller would close a client's connection.
        """
        self._next_correlation_id = (self._next_correlation_id + 1) & 0x7FFFFFFF
        correlation_id, frames = self._next_correlation_id, list[bytes]()
        await in_thread(lambda: frames.append(request_frame(api.key, context.version, correlation_id, context.client_id, request)))
        envelope = EnvelopeRequest(
            request_data=frames[0][SIZE_BYTES:],
            request_principal=principal_bytes(context.principal, is_by_token=context.is_by_token),
            client_host_address=_address(context.client_host),
        )
        answered: Pause[Any] = Pause(is_parked=True)
        self._controller.send(envelope, answered.end, timeout_ms=TIMEOUT_MS)
        answer = await answered
        if isinstance(answer, PeerFailure):
            code = Code.UNSUPPORTED_VERSION if answer.kind is Failure.UNSUPPORTED_VERSION else Code.REQUEST_TIMED_OUT
            self._errors.failed("request_not_forwarded", answer.reason, key=api.key, api=api.name)
            return api.failed(request, context.version, code)
        return self._opened(api, request, context, answer)

    def _opened(self, api: Declared[Any], request: Any, context: RequestContext, answer: Any) -> Any:
        code, reason = answer.error_code, name_of(answer.error_code)
        if code == Code.NONE:
            try:
                response = decode_response_frame(api.key, context.version, bytes(answer.response_data or b""))[1]
                self._errors.succeeded(api.key)
                return response
            except DECODE_FAILURES:
                code, reason = Code.UNKNOWN_SERVER_ERROR, "the response in the envelope cannot be read"
        if code == Code.INVALID_REQUEST:
            raise RequestRefused("the controller cannot read the forwarded request")
        self._errors.failed("envelope_refused", reason, key=api.key, api=api.name)
        # The client does not know the envelope, so an envelope error that is not in ``known`` becomes UNKNOWN_SERVER_ERROR
        # (ForwardingManagerImpl).
        known = (Code.UNSUPPORTED_VERSION, Code.REQUEST_TIMED_OUT, Code.NOT_CONTROLLER)
        return api.failed(request, context.version, Code(code) if code in known else Code.UNKNOWN_SERVER_ERROR)


def _is_of_listener(resource: Any, node_id: str) -> bool:
    """Whether a resource of a configs request is this broker, and at least one of its configs belongs to a listener."""
    is_own = resource.resource_type == BROKER_RESOURCE and resource.resource_name == node_id
    return is_own and any(config.name.startswith(LISTENER_PREFIX) for config in resource.configs)


def _address(host: str) -> bytes:
    try:
        return ip_address(host).packed
    except ValueError:
        return ip_address("127.0.0.1").packed
