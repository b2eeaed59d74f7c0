"""JAAS login modules in the notation of Kafka's documentation, and in other notations that users write."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.security.jaas import JaasError, LoginModule, parse_jaas


@pytest.mark.parametrize(
    "text",
    [
        'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="a b";',
        "PlainLoginModule REQUIRED\n  username = alice\n  password='a b' ;  ",
        'x.PlainLoginModule required username="alice"password="a b";',
    ],
)
def test_login_module_is_parsed(text: str) -> None:
    assert parse_jaas(text) == LoginModule("PlainLoginModule", {"username": "alice", "password": "a b"})


@given(st.text())
def test_jaas_login_module_accepts_every_quoted_password(password: str) -> None:
    quoted = password.replace("\\", "\\\\").replace('"', '\\"')
    assert parse_jaas(f'M required password="{quoted}";').options == {"password": password}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "not of the form"),
        ('M required password="hush"', "not of the form"),
        ('M needed password="hush";', "not of the form"),
        ('M required password="hush;', "not closed"),
        ('M required password "hush";', "an option that is not"),
        ('M required ";"="hush" = ;', "an option that is not"),
        ('M required a="b"; N required password="hush";', "more than one"),
        ("M required " + "a" * (64 << 10), "longer than"),
    ],
)
def test_invalid_jaas_is_refused_without_showing_secrets(text: str, line: str) -> None:
    with pytest.raises(JaasError, match=line) as refused:
        parse_jaas(text)
    assert "hush" not in str(refused.value)


@given(st.text(alphabet="ab=;\"'\\ \n", max_size=40))
def test_random_jaas_text_raises_only_expected_errors(text: str) -> None:
    try:
        parse_jaas(text)
    except JaasError:
        return
