"""The schema registry of a broker: an HTTP server with Confluent's REST API, over the topic ``_schemas`` of the same broker.

The server has its own threads. Its Kafka client connects inside the broker's process and has all rights. If the broker requires
credentials, clients of the registry need the registry's token.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
from collections.abc import Iterable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ottla.addresses import Address
from ottla.broker.config.definitions import ConfigError
from ottla.broker.loop.env import why_not_bound
from ottla.broker.loop.lifecycle import count_from_thread
from ottla.broker.network.listener import Endpoint, advertised_hosts
from ottla.client.errors import ClientError
from ottla.client.kafka_client import KafkaClient
from ottla.client.wire.transport import SocketTransport
from ottla.http.http_server import RETRY_AFTER_S, BoundedHttpServer
from ottla.random_tokens import random_token
from ottla.registry.compilations import Compilations
from ottla.registry.errors import RegistryCode, RegistryError
from ottla.registry.request import RegistryRequest, parsed_target
from ottla.registry.routes import Routes, Text
from ottla.registry.schema_log import SchemaLog

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from ottla.broker.loop.local_sockets import ClientEnd
    from ottla.broker.process.serving import Serving

MAX_CONNECTIONS: Final = 64
"""Maximum number of open connections. Many tasks of a Spark job may register schemas at the same time."""
TIMEOUT_S: Final = 10.0
"""Timeout of a request to the broker, in seconds."""
CONNECT_TIMEOUT_S: Final = 5.0
"""Timeout, in seconds, for opening a connection on the broker's event loop, which may be busy."""
CLIENT_ID: Final = "ottla-schema-registry"
CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
LIBRARIES: Final = ("avro", "jsonschema", "google.protobuf", "grpc_tools")
"""The packages of the extra ``ottla[registry]``."""
_REASONS: Final = {
    200: "OK",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    409: "Conflict",
    422: "Unprocessable Entity",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


def check_libraries() -> None:
    """Raise `ConfigError` if a library of the extra ``ottla[registry]`` is not installed."""
    for name in LIBRARIES:
        try:
            is_installed = find_spec(name) is not None
        except ModuleNotFoundError:
            is_installed = False
        if not is_installed:
            raise ConfigError(f"the schema registry needs {name}; install it with: pip install 'ottla[registry]'")


class SchemaRegistry:
    """The HTTP server. It answers requests once `serve` was called. Raises `ConfigError` if the address cannot be bound.

    Clients send the token as a bearer token, or as the password of HTTP Basic authentication with any user, which all stock clients
    support. If no token is configured and the broker's clients need no credentials, the registry requires no token.
    """

    def __init__(self, serving: Serving) -> None:
        check_libraries()
        settings = serving.broker.settings
        self._serving = serving
        self._loop = asyncio.get_running_loop()
        compilations = Compilations()
        self._log = SchemaLog(self._new_client, compilations.identity, settings.node_id)
        self._routes = Routes(self._log, compilations)
        self.token = settings.ottla_schema_registry_token
        if self.token is None and serving.broker.security.needs_credentials:
            self.token = random_token()
        where = Endpoint("schema registry", settings.ottla_schema_registry_host, settings.ottla_schema_registry_port or 0)
        app: WSGIApplication = self._answer
        try:
            self._server = BoundedHttpServer(
                where.host,
                where.port,
                app,
                self._count_bug,
                own_names=advertised_hosts(settings),
                max_connections=MAX_CONNECTIONS,
                error_fields=_error_fields,
            )
        except (OSError, ValueError) as error:
            raise ConfigError(f"cannot open the schema registry on {where}: {why_not_bound(error)}") from error
        self.url = f"http://{Endpoint('schema registry', where.host, self._server.port)}"

    def serve(self) -> None:
        self._server.serve()

    def close(self) -> None:
        self._server.close()
        self._log.close()

    def _new_client(self) -> KafkaClient:
        """Return a Kafka client of the current broker, which a test may have replaced."""
        broker = self._serving.broker

        def connect(address: Address, timeout_s: float) -> SocketTransport:
            opened = self._open_connection() if address in broker.addresses.own else None
            return SocketTransport(address, timeout_s, opened=opened)

        return KafkaClient(broker.bootstrap, TIMEOUT_S, client_id=CLIENT_ID, connect=connect)

    def _open_connection(self) -> ClientEnd:
        async def opening() -> ClientEnd:
            return self._serving.open_connection()

        try:
            opened = asyncio.run_coroutine_threadsafe(opening(), self._loop)
        except RuntimeError:
            raise ClientError("the broker has stopped") from None
        try:
            return opened.result(CONNECT_TIMEOUT_S)
        except TimeoutError:
            opened.cancel()
            raise ClientError(f"the broker did not answer within {CONNECT_TIMEOUT_S:g} s") from None

    def _answer(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        headers = []
        try:
            status, body = 200, self._encoded(self._routes.answer(self._request(environ)))
        except RegistryError as error:
            status, body = error.status, msgspec.json.encode(_error_fields(error.code, str(error)))
            if error.code == RegistryCode.UNAUTHORIZED:
                headers.append(("WWW-Authenticate", 'Basic realm="ottla"'))
            if error.code == RegistryCode.BUSY:
                headers.append(("Retry-After", str(RETRY_AFTER_S)))
        headers += [("Content-Type", CONTENT_TYPE), ("Content-Length", str(len(body)))]
        start_response(f"{status} {_REASONS[status]}", headers)
        return [body]

    @staticmethod
    def _encoded(answer: Any) -> bytes:
        return answer.text.encode() if isinstance(answer, Text) else msgspec.json.encode(answer)

    def _request(self, environ: WSGIEnvironment) -> RegistryRequest:
        """Return the request of a WSGI environment. Raises `RegistryError` if the token is missing or wrong, and for requests from
        web pages."""
        if self.token is not None and not _shows(str(environ.get("HTTP_AUTHORIZATION", "")), self.token):
            raise RegistryError(
                RegistryCode.UNAUTHORIZED,
                "the token is missing or wrong; give it as the password of basic authentication, with any user",
            )
        # Only browsers send the header Origin, with each request that may change something.
        if "HTTP_ORIGIN" in environ:
            raise RegistryError(RegistryCode.FORBIDDEN, "requests from web pages are not accepted")
        path, query = parsed_target(str(environ["REQUEST_URI"]))
        method = str(environ["REQUEST_METHOD"])
        return RegistryRequest(
            method="GET" if method == "HEAD" else method, path=path, query=query, body=environ["wsgi.input"].read()
        )

    def _count_bug(self) -> None:
        count_from_thread(self._loop, lambda: self._serving.broker.lifecycle)


def _error_fields(code: int, text: str) -> dict[str, object]:
    return {"error_code": int(code), "message": text}


def _shows(authorization: str, token: str) -> bool:
    """Whether an Authorization header contains the token."""
    scheme, _, credentials = authorization.partition(" ")
    if scheme.lower() == "basic":
        try:
            credentials = base64.b64decode(credentials.strip(), validate=True).decode().partition(":")[2]
        except (binascii.Error, ValueError):
            return False
    elif scheme.lower() != "bearer":
        return False
    return hmac.compare_digest(credentials.strip().encode(), token.encode())
