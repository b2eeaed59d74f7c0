"""Parses JSON, and reports in words of ottla what Python's parser reports in its own, or accepts although it is not JSON."""

from __future__ import annotations

import json
import math
import sys
from typing import Any, Final

TOO_DEEP: Final = "it is nested too deeply"
MAX_SHOWN_DIGITS: Final = 20


class NotJson(ValueError):
    """The text is not JSON, or cannot be parsed. The message is one line."""


def parsed_json(text: str | bytes) -> Any:
    """Parse JSON. Raises `NotJson`."""
    try:
        return json.loads(text, parse_float=_float, parse_constant=_not_json)
    except RecursionError:
        raise NotJson(TOO_DEEP) from None
    except (NotJson, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise NotJson(str(error)) from None
    except ValueError:
        # Python's parser limits the digits of integers, because their conversion takes quadratic time.
        raise NotJson(f"it has an integer of more than {sys.get_int_max_str_digits():,} digits") from None


def _float(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise NotJson(f"the number {digits[:MAX_SHOWN_DIGITS]} is too large")
    return number


def _not_json(constant: str) -> None:
    """Refuse NaN and Infinity, which Python's parser accepts."""
    raise NotJson(f"{constant} is not a JSON number")
