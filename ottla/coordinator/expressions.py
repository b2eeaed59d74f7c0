"""Regular expressions that clients send, in RE2's syntax: none takes more than linear time, nor more memory than is said here.

Kafka uses RE2/J, ottla google-re2, which is an extra (``ottla[regex]``). Python's own expressions may take exponential time, so
they are no substitute. google-re2 refuses repetitions above 1,000 also where they are nested, which RE2/J does not.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

MAX_EXPRESSION_CHARACTERS = 5_000
MAX_UNICODE_CLASSES = 50
"""Classes such as ``\\pL`` in one expression: google-re2 takes about 0.12 ms for each before it looks at how large it all is."""
MAX_COMPILED_BYTES = 1 << 19
"""Of one expression: what it is compiled to, and the states that matching adds to that."""
MAX_STATES = 8_000
"""Of one expression, counted repetitions written out: a name of 249 characters is matched in some 15 ms at most."""
COMPILED_EXPRESSIONS = 16
"""How many are kept, those last used."""

STATE_CHARACTERS = 250
"""States of an expression times characters of a text that one unit of `storage.steps` is enough for, when matching is slowest."""

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
"""What RE2/J says where google-re2 says something else."""


class InvalidExpression(ValueError):
    """The text says what is wrong, as RE2/J describes it where that has a description."""


def compiled(expression: str) -> Any:
    """A pattern of google-re2. Raises `InvalidExpression`, also where google-re2 is not installed."""
    _check_size(expression)
    if not _is_installed():
        raise InvalidExpression("expressions need google-re2: pip install 'ottla[regex]'")
    return _compiled(expression)


def check_expression(expression: str) -> None:
    """For an expression that is kept and not matched. Raises `InvalidExpression`; without google-re2 for its size alone."""
    _check_size(expression)
    if _is_installed():
        _compiled(expression)


def _check_size(expression: str) -> None:
    if len(expression) > MAX_EXPRESSION_CHARACTERS:
        raise InvalidExpression(f"it is longer than {MAX_EXPRESSION_CHARACTERS} characters")
    if expression.count(r"\p") + expression.count(r"\P") > MAX_UNICODE_CLASSES:
        raise InvalidExpression(f"it has more than {MAX_UNICODE_CLASSES} Unicode classes")


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
        # It keeps the last 128 of its own accord.
        re2.purge()
    if pattern.programsize > MAX_STATES:
        raise InvalidExpression("it is too large")
    return pattern


def match_work(pattern: Any, text: str) -> int:
    """How much a match may take, in units of `storage.steps`."""
    return 1 + int(pattern.programsize) * len(text) // STATE_CHARACTERS


def _description(error: Exception) -> str:
    text = error.args[0] if error.args else ""
    if isinstance(text, bytes):
        text = text.decode(errors="replace")
    kind = str(text).partition(": ")[0]
    return _DESCRIPTIONS.get(kind, kind)
