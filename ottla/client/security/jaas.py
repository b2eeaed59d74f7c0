"""Parses Kafka's ``sasl.jaas.config``: a login module of Java and its options (org.apache.kafka.common.security.JaasConfig)."""

from __future__ import annotations

import re
from typing import Final

import msgspec

MAX_CHARACTERS: Final = 64 << 10
_TOKEN: Final = re.compile(r"""\s*(?:"((?:\\.|[^"\\])*)"|'((?:\\.|[^'\\])*)'|([=;])|([^\s=;"']+))""", re.DOTALL)
_FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
"""The escapes of java.io.StreamTokenizer, which Java uses to parse the text. Before other characters a backslash is ignored."""


class JaasError(Exception):
    """The message does not contain the option's value, because that contains passwords."""


class LoginModule(msgspec.Struct, frozen=True):
    """A login module and its options. ``name`` is the class without its package."""

    name: str
    options: dict[str, str]

    def __repr__(self) -> str:
        return f"LoginModule({self.name!r}, ...)"


def parse_jaas(text: str) -> LoginModule:
    """Parse the login module in a text. Raises `JaasError`."""
    words = _words(text)
    if len(words) < 3 or words[1].text.lower() not in _FLAGS or words[-1] != _END:
        raise JaasError('is not of the form \'some.LoginModule required username="..." password="...";\'')
    if _END in words[:-1]:
        raise JaasError("has more than one login module")
    pairs = words[2:-1]
    if len(pairs) % 3 or any(sign != _EQUALS for sign in pairs[1::3]):
        raise JaasError('has an option that is not of the form name="value"')
    options = {name.text: value.text for name, value in zip(pairs[::3], pairs[2::3], strict=True)}
    return LoginModule(words[0].text.rpartition(".")[2], options)


class _Word(msgspec.Struct, frozen=True):
    """A token of the option's value. ``is_sign``: the token is ``=`` or ``;`` outside of quotes."""

    text: str
    is_sign: bool = False


_EQUALS: Final = _Word("=", is_sign=True)
_END: Final = _Word(";", is_sign=True)


def _words(text: str) -> list[_Word]:
    if len(text) > MAX_CHARACTERS:
        raise JaasError(f"is longer than {MAX_CHARACTERS} characters")
    words: list[_Word] = []
    at, text = 0, text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise JaasError("has a quotation mark that is not closed")
        at = match.end()
        double, single, sign, plain = match.groups()
        quoted = single if double is None else double
        if quoted is not None:
            words.append(_Word(re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), quoted, flags=re.DOTALL)))
        else:
            words.append(_Word(sign, is_sign=True) if sign else _Word(plain))
    return words
