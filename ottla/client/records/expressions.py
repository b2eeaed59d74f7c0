"""Regular expressions for the keys and values of records."""

from __future__ import annotations

from typing import Any

from ottla.arguments import BadArgument


def pattern(expression: str, *, is_utf8: bool = False) -> Any:
    """Compile a regular expression with RE2, whose matching takes linear time: Python's own ``re`` may take exponential time.

    The expression matches bytes; with ``is_utf8`` it matches characters in UTF-8. Raises `BadArgument`.
    """
    try:
        import re2
    except ImportError:
        raise BadArgument("regular expressions need google-re2: pip install google-re2") from None
    options = re2.Options()
    options.log_errors = False
    # LATIN1 matches byte by byte, because keys and values need not be UTF-8.
    options.encoding = re2.Options.Encoding.UTF8 if is_utf8 else re2.Options.Encoding.LATIN1
    try:
        return re2.compile(expression.encode("utf-8", "surrogateescape"), options)
    except re2.error as error:
        reason = error.args[0].decode("utf-8", "replace") if error.args else "it is invalid"
        raise BadArgument(
            f"{expression!r} is not a regular expression of RE2: {reason}; RE2 has no lookaround such as (?=x), no backreferences"
            r" such as \1, and no possessive repetitions"
        ) from None
