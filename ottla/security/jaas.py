"""Kafka's ``sasl.jaas.config``: a login module with its options (org.apache.kafka.common.security.JaasConfig).

The syntax is ``MODULE FLAG NAME=VALUE ...;`` with the tokens of java.io.StreamTokenizer: values may be quoted, ``//`` and ``/* */``
are comments, and a single ``/`` outside quotes begins a comment as well. Error messages contain no text of the configuration,
because any of it may be a part of a password.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTHBEARER_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
USER_PREFIX = "user_"
"""Prefix of the options of `PLAIN_MODULE` that define users: ``user_alice="secret"``."""

_FLAGS = ("required", "requisite", "sufficient", "optional")
_TOKEN = re.compile(
    r"""(?P<blank>[\x00-\x20]+)
    | (?P<comment>/\*.*?(?:\*/|$) | /[^\r\n]*)
    | "(?P<double>(?:\\.|[^"\\\r\n])*)(?:"|(?=[\r\n])|$)
    | '(?P<single>(?:\\.|[^'\\\r\n])*)(?:'|(?=[\r\n])|$)
    | (?P<sign>[;=])
    | (?P<word>[^\x00-\x20/"';=]+)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class JaasError(ValueError):
    """A JAAS configuration that cannot be used. The message is one line for a person, and contains no secret."""


class LoginModule(msgspec.Struct, frozen=True):
    """One login module with its options (AppConfigurationEntry)."""

    name: str
    options: Mapping[str, str]

    def __repr__(self) -> str:
        """The module's name and the options' names, without values, which are secrets."""
        return f"LoginModule({self.name!r}, options {sorted(self.options)})"

    @property
    def users(self) -> dict[str, str]:
        """The passwords of the users that the options define, by user name."""
        return {name.removeprefix(USER_PREFIX): text for name, text in self.options.items() if name.startswith(USER_PREFIX)}


def login_module(text: str) -> LoginModule:
    """Parse a configuration of exactly one login module. Raises `JaasError`."""
    tokens = [*_tokens(text)]
    modules, at = [], 0
    while at < len(tokens):
        module, at = _module(tokens, at)
        modules.append(module)
    if not modules:
        raise JaasError("Login module not specified in JAAS config")
    if len(modules) != 1:
        raise JaasError(f"JAAS config property contains {len(modules)} login modules, should be 1 module")
    return modules[0]


class _Token(msgspec.Struct, frozen=True):
    """A token: a sign (``;`` or ``=``), or a word."""

    text: str
    is_sign: bool

    def is_(self, sign: str) -> bool:
        return self.is_sign and self.text == sign


def _tokens(text: str) -> Iterator[_Token]:
    for found in _TOKEN.finditer(text):
        kind = found.lastgroup
        if kind == "sign":
            yield _Token(found["sign"], is_sign=True)
        elif kind == "word":
            yield _Token(found["word"], is_sign=False)
        elif kind in ("double", "single"):
            yield _Token(_ESCAPE.sub(_unescaped, found[kind]), is_sign=False)


def _unescaped(match: re.Match[str]) -> str:
    sign = match[1]
    return chr(int(sign, 8)) if sign[0] in "01234567" else _ESCAPED.get(sign, sign)


def _module(tokens: list[_Token], at: int) -> tuple[LoginModule, int]:
    """Return the module that begins at a token, and the position after it. Raises `JaasError` with the messages of JaasConfig."""
    name, at = tokens[at], at + 1
    if name.is_sign:
        raise JaasError("Login module not specified in JAAS config")
    if at == len(tokens):
        raise JaasError("Login module control flag not specified in JAAS config")
    flag, at = tokens[at], at + 1
    if flag.is_sign:
        raise JaasError("Login module control flag is not available in the JAAS config")
    if flag.text.lower() not in _FLAGS:
        raise JaasError(f"Invalid login module control flag in JAAS config; give one of {', '.join(_FLAGS)}")
    options: dict[str, str] = {}
    while at < len(tokens) and not tokens[at].is_(";"):
        key, equals, value = tokens[at].text, tokens[at + 1 : at + 2], tokens[at + 2 : at + 3]
        if tokens[at].is_sign or not equals or not equals[0].is_("=") or not value or value[0].is_sign:
            # Unlike Kafka's, the message omits the key, which is a part of a password if quotes are missing.
            raise JaasError(f"Value not specified for key {len(options) + 1} in JAAS config; give NAME=VALUE, with quotes")
        options[key] = value[0].text
        at += 3
    if at == len(tokens):
        raise JaasError("JAAS config entry not terminated by semi-colon")
    return LoginModule(name.text, options), at + 1
