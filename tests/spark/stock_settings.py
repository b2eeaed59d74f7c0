"""librdkafka's settings for a cluster's address and the client's credentials (its CONFIGURATION.md)."""

from __future__ import annotations

import time
from typing import Any, Final

from ottla.client.security.client_config import OAUTHBEARER, Connecting, Pem, Sasl, Tls
from ottla.client.security.tokens import token_of

ASSUMED_LIFE_S: Final = 300.0
"""Assumed lifetime, in seconds, of a token without an expiry, because librdkafka requires one."""


def settings_of(connecting: Connecting) -> dict[str, Any]:
    """Return the settings of a producer, consumer or admin client of confluent-kafka."""
    settings: dict[str, Any] = {"bootstrap.servers": connecting.bootstrap, "security.protocol": connecting.protocol.lower()}
    if connecting.tls is not None:
        settings |= _of_tls(connecting.tls)
    if connecting.sasl is not None:
        settings |= _of_sasl(connecting.sasl)
    return settings


def _of_tls(tls: Tls) -> dict[str, Any]:
    settings: dict[str, Any] = {"ssl.endpoint.identification.algorithm": "https" if tls.checks_hostname else "none"}
    for name, pem in (("ssl.ca", tls.trusted), ("ssl.certificate", tls.certificate), ("ssl.key", tls.key)):
        if pem is not None:
            settings |= _of_pem(name, pem)
    if tls.key_password is not None:
        settings["ssl.key.password"] = tls.key_password.text
    return settings


def _of_pem(name: str, pem: Pem) -> dict[str, str]:
    return {f"{name}.location": pem.location} if pem.text is None else {f"{name}.pem": pem.text.text}


def _of_sasl(sasl: Sasl) -> dict[str, Any]:
    if sasl.mechanism != OAUTHBEARER:
        return {"sasl.mechanism": sasl.mechanism, "sasl.username": sasl.username, "sasl.password": sasl.password.text}

    def token(_: str) -> tuple[str, float, str, dict[str, str]]:
        given = token_of(sasl)
        return given.value.text, given.expires_s or time.time() + ASSUMED_LIFE_S, "", given.extensions

    return {"sasl.mechanism": OAUTHBEARER, "oauth_cb": token}
