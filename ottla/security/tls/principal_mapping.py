"""``ssl.principal.mapping.rules``: from the subject of a certificate to the name of a principal (SslPrincipalMapper, KIP-371).

A rule is ``DEFAULT``, which returns the subject itself, or ``RULE:PATTERN/REPLACEMENT/[LU]``. The first rule whose pattern matches
the whole subject wins.
"""

from __future__ import annotations

import re

_RULE = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER = re.compile(rf"\s*({_RULE})\s*(?:,\s*|\Z)")
_PARSER = re.compile(_RULE)
_REFERENCE = re.compile(r"\\(.)|\$(\d+)", re.DOTALL)
MAX_SUBJECT_CHARACTERS = 4_096
"""Maximum length of a subject that is matched. A client chooses its subject, and a pattern may take quadratic time."""


class RuleError(ValueError):
    """Principal mapping rules that cannot be used."""


class NoRuleMatches(Exception):
    """No rule matches a subject, so its client is refused."""


class MappingRule:
    """One principal mapping rule; ``DEFAULT`` if it has no pattern."""

    __slots__ = ("_case", "_pattern", "_replacement")

    def __init__(self, pattern: str | None = None, replacement: str = "", case: str = "") -> None:
        """``case``: L for lower case, U for upper case, or empty. Raises `RuleError`."""
        self._replacement, self._case = replacement, case
        try:
            self._pattern = None if pattern is None else re.compile(pattern, re.ASCII)
        except re.error as error:
            raise RuleError(f"invalid pattern {pattern!r}: {error}") from None

    def name_of(self, subject: str) -> str | None:
        """Return the name that the rule makes of a subject; None if the rule does not match."""
        if self._pattern is None:
            return subject
        found = self._pattern.fullmatch(subject)
        if found is None:
            return None
            # Java replaces the match of the whole subject, and also an empty match after it.
        name = "".join(self._replaced(match) for match in self._pattern.finditer(subject)) if found[0] else self._replaced(found)
        return name.lower() if self._case == "L" else name.upper() if self._case == "U" else name

    def _replaced(self, match: re.Match[str]) -> str:
        groups = match.re.groups

        def text_of(reference: re.Match[str]) -> str:
            if reference[1] is not None:
                return reference[1]
            digits, rest = reference[2], ""
            # ``$12`` means group 1 followed by the digit 2 if the pattern has fewer than 12 groups.
            while len(digits) > 1 and int(digits) > groups:
                digits, rest = digits[:-1], digits[-1] + rest
            if int(digits) > groups:
                return reference[0]
            return (match[int(digits)] or "") + rest

        return _REFERENCE.sub(text_of, self._replacement)

    def __str__(self) -> str:
        if self._pattern is None:
            return "DEFAULT"
        replacement = f"/{self._replacement}"
        return f"RULE:{self._pattern.pattern}{replacement}{f'/{self._case}' if self._case else ''}"


class PrincipalMapping:
    """The rules of ``ssl.principal.mapping.rules``, in order."""

    def __init__(self, text: str) -> None:
        """Parse ``ssl.principal.mapping.rules``. Raises `RuleError`."""
        self._rules = [rule for part in _split(text) if (rule := _parsed(part)) is not None]

    def name_of(self, subject: str) -> str:
        """Map the subject of a certificate to the name of a principal. Raises `NoRuleMatches`."""
        if len(subject) <= MAX_SUBJECT_CHARACTERS:
            for rule in self._rules:
                name = rule.name_of(subject)
                if name is not None:
                    return name
        raise NoRuleMatches(f"No rules apply to {subject[:200]}, rules {self}")

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self._rules))}]"


def _split(text: str) -> list[str]:
    return [found[1] for found in _SPLITTER.finditer(text.strip())]


def _parsed(text: str) -> MappingRule | None:
    """A rule; None for an empty text. Raises `RuleError` with the messages of SslPrincipalMapper."""
    found = _PARSER.match(text)
    if found is None or found.end() != len(text):
        rest = text if found is None else text[found.end() :]
        raise RuleError(f"Invalid rule: `{text}`, unmatched substring: `{rest}`")
    if found[1] is not None:
        return MappingRule()
    return None if found[2] is None else MappingRule(found[2], found[3], found[4])
