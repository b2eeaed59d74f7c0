"""Conversations of clients that authenticate, rightly, wrongly or with malformed requests, and their outcomes as text.

A conversation is a list of steps on one connection. A step is a request, or the bytes of a frame; its outcome is the response, or
that the broker closed the connection.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from typing import NamedTuple

from ottla.protocol.codec import request_frame
from ottla.protocol.errors import Code
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from ottla.simulation.client import Closed
from tests.security.sasl.conversations import ScramClient
from tests.security.sasl.test_oauthbearer import message, token
from tests.support.raw_client import RawClient

PASSWORD = "secret"
PLAIN = b"\0alice\0secret"
DELAY_S = 0.08
"""In seconds, a little less than connection.failed.authentication.delay.ms."""
ATTEMPTS = 3
"""Number of times that a conversation is held. Load may make any response late, but only a delayed response is late every time."""
DELAYED = " (delayed)"
MOST_SHOWN = 40
"""Bytes of a step's token or frame that its text shows."""


class Step(NamedTuple):
    """``text`` describes the step in the transcript; ``act`` runs it and returns the outcome."""

    text: str
    act: Callable[[RawClient], str]


def outcome(client: RawClient, step: Step) -> str:
    """Return the outcome of a step, with a note if the response was late."""
    began_s = time.monotonic()
    try:
        seen = step.act(client)
    except Closed:
        return "closed"
    return seen + DELAYED if step.text != LATER and time.monotonic() - began_s > DELAY_S else seen


def outcomes(bootstrap: str, steps: list[Step]) -> list[str]:
    with RawClient(bootstrap) as client:
        return [outcome(client, step) for step in steps]


def steady_outcomes(bootstrap: str, steps: list[Step], expected: list[str] | None = None) -> list[str]:
    """Return the outcomes of a conversation. It is repeated unless they are as expected, so that only responses that the broker
    delays count as late."""
    seen = outcomes(bootstrap, steps)
    for _ in range(ATTEMPTS - 1):
        if seen == expected:
            break
        again = outcomes(bootstrap, steps)
        seen = [one if one == other.removesuffix(DELAYED) else other for one, other in zip(seen, again, strict=True)]
    return seen


def shown(sent: bytes) -> str:
    return repr(sent) if len(sent) <= MOST_SHOWN else f"{len(sent):,} bytes"


def versions(software: str = "c", version: int = 3) -> Step:
    def act(client: RawClient) -> str:
        request = ApiVersionsRequest(client_software_name=software, client_software_version="1")
        answer = client.call(request, version)
        return f"{Code(answer.error_code).name}, {'several APIs' if len(answer.api_keys) > 1 else 'one API'}"

    return Step(f"ApiVersions of {software!r}", act)


def handshake(mechanism: str = "PLAIN", version: int = 1) -> Step:
    def act(client: RawClient) -> str:
        answer = client.call(SaslHandshakeRequest(mechanism=mechanism), version)
        return f"{Code(answer.error_code).name} [{', '.join(sorted(answer.mechanisms))}]"

    return Step(f"SaslHandshake {mechanism}" + ("" if version == 1 else f" version {version}"), act)


def authenticate(sent: bytes = PLAIN, version: int = 2, text: str | None = None) -> Step:
    def act(client: RawClient) -> str:
        answer = client.call(SaslAuthenticateRequest(auth_bytes=sent), version)
        data = bytes(answer.auth_bytes)
        if data.startswith((b"r=", b"v=")):  # A nonce or a signature, which differ each time.
            data = data[:2]
        lasts = "with an end" if answer.session_lifetime_ms > 0 else "without end"
        return f"{Code(answer.error_code).name} {answer.error_message!r}, {data!r}, session {lasts}"

    return Step(f"SaslAuthenticate {text or shown(sent)}" + ("" if version == 2 else f" version {version}"), act)


def scram(user: str, password: str, mechanism: str) -> list[Step]:
    made: list[ScramClient] = []
    first: list[bytes] = []

    def begin(client: RawClient) -> str:
        made.append(ScramClient(mechanism, user, password))
        answer = client.call(SaslAuthenticateRequest(auth_bytes=made[-1].first()), 2)
        first.append(bytes(answer.auth_bytes))
        rounds = first[-1].rpartition(b",i=")[2].decode()
        return f"{Code(answer.error_code).name}, {rounds} iterations"

    def end(client: RawClient) -> str:
        return authenticate(made[-1].final(first[-1])).act(client)

    return [
        handshake(mechanism),
        Step(f"SaslAuthenticate first message of {user!r}", begin),
        Step(f"SaslAuthenticate proof of {password!r}", end),
    ]


def bearer(seconds: int, prefix: str = "n,,") -> Step:
    """Authenticate by a token that expires after these seconds."""

    def act(client: RawClient) -> str:
        now = int(time.time())
        made = token(iat=now - 5, exp=now + seconds) if seconds > 0 else token(iat=now - 90, exp=now + seconds)
        return authenticate(message(made, prefix)).act(client)

    return Step(f"SaslAuthenticate {prefix!r} and a token for {seconds} s", act)


metadata = Step("Metadata", lambda client: f"cluster id {client.call(MetadataRequest(topics=[]), 9).cluster_id is not None}")
groups = Step("ListGroups", lambda client: Code(client.call(ListGroupsRequest(), 4).error_code).name)
LATER = "after more than a second"
"""A broker refuses a re-authentication within a second of the previous one (KIP-368)."""


def _wait(client: RawClient) -> str:
    time.sleep(1.1)
    return "-"


later = Step(LATER, _wait)


def frame(raw: bytes) -> Step:
    return plain_bytes(struct.pack(">i", len(raw)) + raw)


def plain_bytes(raw: bytes) -> Step:
    def act(client: RawClient) -> str:
        client.send_bytes(raw)
        received = bytes(client.receive_frame())
        # A longer frame lists the mechanisms, in any order.
        return f"frame {received.hex()}" if 0 < len(received) <= MOST_SHOWN else f"frame of {len(received)} bytes"

    return Step(f"bytes {raw.hex()}", act)


CONVERSATIONS: dict[str, list[Step]] = {
    "SAS-01 plain": [versions(), handshake(), authenticate(), metadata, groups],
    "SAS-01 without versions": [handshake(), authenticate(version=0), metadata],
    "SAS-01 versions of a bad name, then a good one": [versions("!!"), versions(), handshake()],
    "SAS-01 versions of the future": [frame(struct.pack(">hhih", 18, 99, 1, -1) + b"\0\2x\2y\0"), versions()],
    "SAS-01 versions twice": [versions(), versions()],
    "SAS-02 metadata first": [metadata],
    "SAS-02 metadata after versions": [versions(), metadata],
    "SAS-02 another request instead of a token": [handshake(), groups],
    "SAS-03 token first": [authenticate()],
    "SAS-03 versions instead of a token": [handshake(), versions()],
    "SAS-03 handshake instead of a token": [handshake(), handshake()],
    "SAS-04 unknown mechanism": [handshake("GSSAPI"), versions()],
    "SAS-05 handshake of an unknown version": [frame(struct.pack(">hhih", 17, 9, 1, -1) + b"\0\0")],
    "SAS-05 token of an unknown version": [handshake(), frame(struct.pack(">hhih", 36, 9, 1, -1) + b"\0\0")],
    "SAS-05 malformed token request": [handshake(), frame(struct.pack(">hhih", 36, 1, 1, -1) + b"\0\0\0\x7f")],
    "SAS-05 trailing bytes": [frame(request_frame(17, 1, 1, "c", SaslHandshakeRequest(mechanism="PLAIN"))[4:] + b"xyz")],
    "SAS-06 wrong password": [handshake(), authenticate(b"\0alice\0x"), authenticate()],
    "SAS-06 unknown user": [handshake(), authenticate(b"\0mallory\0secret")],
    "SAS-06 no token": [handshake(), authenticate(b"")],
    "SAS-06 no user": [handshake(), authenticate(b"\0\0secret")],
    "SAS-06 no password": [handshake(), authenticate(b"\0alice\0")],
    "SAS-06 four parts": [handshake(), authenticate(PLAIN + b"\0x")],
    "SAS-06 malformed UTF-8": [handshake(), authenticate(b"\0\xff\0\xff")],
    "SAS-06 another authorization id": [handshake(), authenticate(b"bob" + PLAIN)],
    "SAS-07 bare token": [handshake(version=0), frame(PLAIN), metadata],
    "SAS-07 wrong bare token": [handshake(version=0), frame(b"\0alice\0x")],
    "SAS-08 SCRAM-SHA-256": [*scram("alice", PASSWORD, "SCRAM-SHA-256"), metadata, handshake(), authenticate(), metadata],
    "SAS-08 SCRAM-SHA-512": [*scram("alice", PASSWORD, "SCRAM-SHA-512"), metadata, handshake(), authenticate(), metadata],
    "SAS-08 SCRAM-SHA-256 with a wrong password": scram("alice", "wrong", "SCRAM-SHA-256"),
    "SAS-08 SCRAM-SHA-512 with a wrong password": scram("alice", "wrong", "SCRAM-SHA-512"),
    "SAS-09 SCRAM-SHA-256 with another authorization id": [handshake("SCRAM-SHA-256"), authenticate(b"n,a=bob,n=alice,r=x")],
    "SAS-09 SCRAM-SHA-512 with another authorization id": [handshake("SCRAM-SHA-512"), authenticate(b"n,a=bob,n=alice,r=x")],
    "SAS-09 SCRAM-SHA-256 with channel binding": [handshake("SCRAM-SHA-256"), authenticate(b"p=tls-unique,,n=alice,r=x")],
    "SAS-09 SCRAM-SHA-512 with channel binding": [handshake("SCRAM-SHA-512"), authenticate(b"p=tls-unique,,n=alice,r=x")],
    "SAS-09 SCRAM-SHA-256 with extensions": [handshake("SCRAM-SHA-256"), authenticate(b"n,,n=alice,r=x,team=red")],
    "SAS-09 SCRAM-SHA-512 with extensions": [handshake("SCRAM-SHA-512"), authenticate(b"n,,n=alice,r=x,team=red")],
    "SAS-09 SCRAM-SHA-256 with a delegation token": [handshake("SCRAM-SHA-256"), authenticate(b"n,,n=alice,r=x,tokenauth=true")],
    "SAS-09 SCRAM-SHA-512 with a delegation token": [handshake("SCRAM-SHA-512"), authenticate(b"n,,n=alice,r=x,tokenauth=true")],
    "SAS-10 unsecured token": [handshake("OAUTHBEARER"), bearer(600)],
    "SAS-10 expired token": [handshake("OAUTHBEARER"), bearer(-60), authenticate(b"\1")],
    "SAS-10 malformed token": [handshake("OAUTHBEARER"), authenticate(message("a.b")), authenticate(b"\1")],
    "SAS-10 no token at all": [handshake("OAUTHBEARER"), authenticate(b"\1")],
    "SAS-10 token of another user": [handshake("OAUTHBEARER"), bearer(600, "n,a=bob,")],
    "SAS-11 authentication again": [handshake(), authenticate(), handshake(), authenticate(), metadata, handshake(), metadata],
    "SAS-11 authentication again as another user": [handshake(), authenticate(), later, handshake(), authenticate(b"\0bob\0hush")],
    "SAS-11 authentication again by another mechanism": [handshake(), authenticate(), handshake("SCRAM-SHA-256"), authenticate()],
    "SAS-11 versions at the second authentication": [handshake(), authenticate(), handshake(), versions()],
    "SAS-12 too large frame": [plain_bytes(struct.pack(">i", 524_289) + b"\0\x12")],
    "SAS-12 empty frame": [frame(b"")],
    "SAS-12 HTTP": [plain_bytes(b"GET / HTTP/1.0\r\n\r\n")],
    "SAS-12 large frame": [handshake(), authenticate(b"x" * 500_000)],
    "SAS-13 handshake on a plain listener": [versions(), handshake(), metadata],
    "SAS-13 token on a plain listener": [authenticate(), metadata],
}
"""By rule and title."""
