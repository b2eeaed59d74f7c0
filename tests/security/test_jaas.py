"""``sasl.jaas.config`` is read as Kafka's JaasConfig reads it, and errors contain no secret (JaasContextTest)."""

from __future__ import annotations

import pytest

from ottla.security.jaas import PLAIN_MODULE, JaasError, login_module

VALUE_MISSING = "Value not specified for key {} in JAAS config; give NAME=VALUE, with quotes"


def test_jaas_users_of_a_plain_login_module_are_found() -> None:
    module = login_module(f'{PLAIN_MODULE} required username="broker" password="b" user_alice="secret" user_bob=\'se "cret\';')
    assert module.name == PLAIN_MODULE
    assert module.users == {"alice": "secret", "bob": 'se "cret'}


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("a.B required;", {}),
        ("a.B  REQUIRED\n a=b\tc=d ;", {"a": "b", "c": "d"}),
        ("a.B required a=b // a comment; x=y\n c=d;", {"a": "b", "c": "d"}),
        ("a.B required /* a=b; */ c=d;", {"c": "d"}),
        ('a.B required url="https://host/path;x=y";', {"url": "https://host/path;x=y"}),
        (r'a.B required a="say \"so\"" b="back\\slash" c="A\102\n";', {"a": 'say "so"', "b": "back\\slash", "c": "AB\n"}),
        ("a.B required a=1 b=2.5 a-b=x.y@z;", {"a": "1", "b": "2.5", "a-b": "x.y@z"}),
        ("a.B required 'a b'=c;", {"a b": "c"}),
    ],
)
def test_jaas_options_are_split_like_by_javas_stream_tokenizer(text: str, options: dict[str, str]) -> None:
    assert login_module(text).options == options


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "Login module not specified in JAAS config"),
        ("// a comment", "Login module not specified in JAAS config"),
        ("a.B", "Login module control flag not specified in JAAS config"),
        ("a.B ;", "Login module control flag is not available in the JAAS config"),
        ("a.B hush;", "Invalid login module control flag in JAAS config; give one of required, requisite, sufficient, optional"),
        ("a.B required a=hush", "JAAS config entry not terminated by semi-colon"),
        ("a.B required a;", VALUE_MISSING.format(1)),
        ("a.B required a=;", VALUE_MISSING.format(1)),
        ("a.B required a==hush;", VALUE_MISSING.format(1)),
        ("a.B required a=", VALUE_MISSING.format(1)),
        ('a.B required a=b password=my hush";', VALUE_MISSING.format(3)),
        ('a.B required username="alice" "password=hush";', VALUE_MISSING.format(2)),
        ("a.B required; c.D required;", "JAAS config property contains 2 login modules, should be 1 module"),
    ],
)
def test_malformed_jaas_config_is_refused_without_showing_its_values(text: str, says: str) -> None:
    with pytest.raises(JaasError) as caught:
        login_module(text)
    assert str(caught.value) == says
    assert "hush" not in str(caught.value)


def test_repr_of_a_jaas_login_module_has_no_secret() -> None:
    assert "hush" not in repr(login_module('a.B required password="hush" user_bob="hush";'))
