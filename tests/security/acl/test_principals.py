"""Principals and the setting ``super.users``."""

from __future__ import annotations

import pytest

from ottla.security.acl.principals import ANONYMOUS, KafkaPrincipal, parse_principal, parse_super_users


def test_principal_is_parsed_at_its_first_colon() -> None:
    assert parse_principal("User:CN=a:b") == KafkaPrincipal("User", "CN=a:b")
    assert str(parse_principal("User:ANONYMOUS")) == str(ANONYMOUS) == "User:ANONYMOUS"


def test_principal_without_a_colon_is_refused_in_kafkas_words() -> None:
    with pytest.raises(ValueError, match="expected a string in format principalType:principalName but got alice"):
        parse_principal("alice")


def test_super_users_are_separated_by_semicolons() -> None:
    parsed = parse_super_users(" User:alice; ;User:CN=broker-0,OU=ops;")
    assert parsed == {KafkaPrincipal("User", "alice"), KafkaPrincipal("User", "CN=broker-0,OU=ops")}
    assert parse_super_users("") == frozenset()
