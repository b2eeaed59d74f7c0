"""Compiles regular expressions that clients send, in RE2's syntax. Matching takes linear time, and memory is limited.

Kafka uses RE2/J. ottla uses google-re2, which is imported when the first expression is compiled, because some platforms have no
wheel of it. Python's own ``re`` is no substitute, because it may take exponential time. Unlike RE2/J, google-re2 rejects nested
repetitions that multiply to more than 1,000.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

MAX_EXPRESSION_CHARACTERS = 5_000
MAX_UNICODE_CLASSES = 50
"""Maximum number of Unicode classes such as ``\\pL`` in an expression. google-re2 takes about 0.12 ms for each before it checks the
size of the expression.
"""
MAX_COMPILED_BYTES = 1 << 19
"""Maximum memory of one compiled expression, with the states that matching adds."""
MAX_STATES = 8_000
"""Maximum number of states of an expression, with repetitions expanded. At this size, matching 249 characters takes up to 15 ms."""
COMPILED_EXPRESSIONS = 16
"""Number of compiled expressions in the cache, which drops the least recently used."""

STATE_CHARACTERS = 250
"""States of an expression, times characters of a text, that are matched in one unit of work of `protocol.steps.Pace`."""

_DESCRIPTIONS = {
    "bad repetition operator": "invalid nested repetition operator",
    "invalid character class range": "invalid character class range",
    "invalid escape sequence": "invalid escape sequence",
    "invalid named capture group": "invalid named capture",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "trailing \\": "trailing backslash at end of expression",
    "unexpected )": "regexp/syntax: internal error",
}
"""Maps google-re2's error descriptions to RE2/J's."""


class InvalidExpression(ValueError):
    """An expression is invalid. The message has RE2/J's description, if there is one."""


def compiled(expression: str) -> Any:
    """Return google-re2's compiled expression. Raises `InvalidExpression`, also if google-re2 is not installed."""
    _check_size(expression)
    if not _is_installed():
        raise InvalidExpression("regular expressions need google-re2: pip install google-re2")
    return _compiled(expression)


def check_expression(expression: str) -> None:
    """Raise `InvalidExpression` for an invalid expression before storing it. Without google-re2, only its size is checked."""
    _check_size(expression)
    if _is_installed():
        _compiled(expression)


def _check_size(expression: str) -> None:
    if len(expression) > MAX_EXPRESSION_CHARACTERS:
        raise InvalidExpression(f"the expression is longer than {MAX_EXPRESSION_CHARACTERS} characters")
    if expression.count(r"\p") + expression.count(r"\P") > MAX_UNICODE_CLASSES:
        raise InvalidExpression(f"the expression has more than {MAX_UNICODE_CLASSES} Unicode classes")


def _is_installed() -> bool:
    try:
        import re2  # noqa: F401
    except ImportError:
        return False
    return True


@lru_cache(maxsize=COMPILED_EXPRESSIONS)
def _compiled(expression: str) -> Any:
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = MAX_COMPILED_BYTES
    try:
        pattern = re2.compile(expression, options)
    except re2.error as error:
        raise InvalidExpression(_description(error)) from None
    finally:
        # google-re2 caches 128 expressions itself. Clear them to save memory: `_compiled` has a smaller cache.
        re2.purge()
    if pattern.programsize > MAX_STATES:
        raise InvalidExpression("the expression is too large")
    return pattern


def match_work(pattern: Any, text: str) -> int:
    """Return the most work that matching ``text`` may take, in units of `protocol.steps.Pace`."""
    return 1 + int(pattern.programsize) * len(text) // STATE_CHARACTERS


def _description(error: Exception) -> str:
    text = error.args[0] if error.args else ""
    if isinstance(text, bytes):
        text = text.decode(errors="replace")
    kind = str(text).partition(": ")[0]
    return _DESCRIPTIONS.get(kind, kind)
