"""After a failed connection, finds out whether the listener uses TLS and SASL.

If a client uses the wrong security protocol, a broker just closes the connection, so the failure does not show the reason.
"""

from __future__ import annotations

import socket
import ssl
from typing import Any, Final

from ottla.addresses import Address
from ottla.client.errors import ListenerMismatch
from ottla.client.security.client_config import PROTOCOL, Connecting, Tls
from ottla.client.security.tls import PROBE_TIMEOUT_S, context_of, refusal_of
from ottla.protocol.codec import DECODE_FAILURES, decode_response_frame, request_frame
from ottla.protocol.errors import Code
from ottla.protocol.messages.api_versions import API_KEY as API_VERSIONS
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.sasl_handshake import API_KEY as SASL_HANDSHAKE
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest

MAX_ANSWER_BYTES: Final = 1 << 20
_CORRELATION_ID: Final = 0x6F74746C
"""A correlation id that cannot be mistaken for the bytes of a TLS record."""
_NO_MECHANISM: Final = "?"


def explained(error: Exception, address: Address, connecting: Connecting) -> Exception:
    """Return a `ListenerMismatch` that explains why the settings cannot work with the broker, else ``error``."""
    line = diagnosis(address, connecting)
    return error if line is None else ListenerMismatch(line)


def diagnosis(address: Address, connecting: Connecting) -> str | None:
    """Explain why the settings cannot work with the broker. Returns None if the probe finds no such reason."""
    where = f"the broker at {address[0]}:{address[1]}"
    given = f"{connecting.prefix}{PROTOCOL} is {connecting.protocol}"
    if connecting.tls is not None:
        if ask_plainly(address, API_VERSIONS, 0, ApiVersionsRequest()) is not None:
            return f"{where} does not use TLS on this listener, but {given}: give {connecting.protocol.replace('SSL', 'PLAINTEXT')}"
        return _rejection(address, connecting.tls)
    if speaks_tls(address):
        return f"{where} uses TLS on this listener, but {given}: give {connecting.protocol.replace('PLAINTEXT', 'SSL')}"
    return login_demand(address, connecting)


def login_demand(address: Address, connecting: Connecting) -> str | None:
    """Return the error for a client without SASL settings whose listener requires authentication without TLS; else None."""
    if connecting.sasl is not None:
        return None
    shaken = ask_plainly(address, SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism=_NO_MECHANISM))
    if shaken is None or shaken.error_code != Code.UNSUPPORTED_SASL_MECHANISM:
        return None
    return (
        f"the broker at {address[0]}:{address[1]} requires clients to authenticate ({', '.join(sorted(shaken.mechanisms))}), but"
        f" {connecting.prefix}{PROTOCOL} is {connecting.protocol}: give SASL_PLAINTEXT"
    )


def ask_plainly(address: Address, key: int, version: int, request: Any) -> Any:
    """Send a request without TLS. Returns None if no valid response arrives."""
    try:
        with socket.create_connection(address, PROBE_TIMEOUT_S) as connection, connection.makefile("rb") as answers:
            connection.sendall(request_frame(key, version, _CORRELATION_ID, None, request))
            size = int.from_bytes(answers.read(4), "big")
            if not 4 <= size <= MAX_ANSWER_BYTES:
                return None
            correlation_id, answer = decode_response_frame(key, version, answers.read(size))
    except (OSError, *DECODE_FAILURES):
        return None
    return answer if correlation_id == _CORRELATION_ID else None


def speaks_tls(address: Address) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with socket.create_connection(address, PROBE_TIMEOUT_S) as raw, context.wrap_socket(raw, server_hostname=address[0]):
            return True
    except ssl.SSLError as error:
        return "ALERT" in str(error.reason)
    except OSError:
        return False


def _rejection(address: Address, tls: Tls) -> str | None:
    """Explain why the broker rejects the client's certificate; None if the broker accepts the certificate.

    In TLS 1.3 the broker rejects the certificate after the handshake, so a new connection is opened on which nothing is sent. Some
    brokers send an alert, and other brokers only close the connection.
    """
    is_shaken = False
    try:
        with (
            socket.create_connection(address, PROBE_TIMEOUT_S) as raw,
            context_of(tls).wrap_socket(raw, server_hostname=address[0]) as connection,
        ):
            is_shaken = True
            if connection.recv(1):
                return None
    except TimeoutError:
        return None
    except ssl.SSLError as error:
        return refusal_of(error, tls, address)
    except OSError:
        if not is_shaken:
            return None
    what = f"the broker at {address[0]}:{address[1]} closed the connection after the TLS handshake"
    option = f"{tls.prefix}ssl.keystore.location"
    if tls.certificate is None:
        return f"{what}; if it requires a client certificate, give {option}"
    return f"{what}; it does not seem to accept the client's certificate: see {option}"
