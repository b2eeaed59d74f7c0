"""Principals and the setting ``super.users``."""

from __future__ import annotations

import pytest

from ottla.security.acl.principals import parse_super_users
from ottla.security.principal import ANONYMOUS, KafkaPrincipal


def test_kafka_principal_is_split_at_its_first_colon() -> None:
    assert KafkaPrincipal.parse("User:CN=a:b") == KafkaPrincipal("User", "CN=a:b")
    assert str(KafkaPrincipal.parse("User:ANONYMOUS")) == str(ANONYMOUS) == "User:ANONYMOUS"


def test_principal_without_a_colon_is_refused_with_kafkas_message() -> None:
    with pytest.raises(ValueError, match="expected a string in format principalType:principalName but got alice"):
        KafkaPrincipal.parse("alice")


def test_super_users_are_separated_by_semicolons() -> None:
    parsed = parse_super_users(" User:alice; ;User:CN=broker-0,OU=ops;")
    assert parsed == {KafkaPrincipal("User", "alice"), KafkaPrincipal("User", "CN=broker-0,OU=ops")}
    assert parse_super_users("") == frozenset()
