"""Unsecured tokens for OAUTHBEARER (Kafka's development mode), and providers of tokens for client libraries of Python."""

from __future__ import annotations

from typing import Any

from ottla.client.real_time import now_ms


def unsecured_token(user: str) -> str:
    """Return a new token that is valid for an hour of the machine's clock."""
    from ottla.client.security.unsecured_login import unsecured_login

    return unsecured_login({"unsecuredLoginStringClaim_sub": user}, lambda: now_ms() / 1_000)().value.text


def kafka_python_provider(user: str) -> Any:
    """Return kafka-python's ``sasl_oauth_token_provider``."""
    try:
        from kafka.net.sasl.oauth import AbstractTokenProvider
    except ImportError:  # kafka-python 2
        from kafka.sasl.oauth import AbstractTokenProvider

    class Provider(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return unsecured_token(user)

    return Provider()


def aiokafka_provider(user: str) -> Any:
    """Return aiokafka's ``sasl_oauth_token_provider``."""
    from aiokafka.abc import AbstractTokenProvider

    class Provider(AbstractTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return unsecured_token(user)

    return Provider()
