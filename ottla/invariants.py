"""Whether whole states are checked after each change, beside the asserts that cost next to nothing and are always made.

Tests and simulations switch it on: a state that has gone wrong is then seen where it went wrong, not by the client that suffers
from it later. A broker that serves never does, because a whole state has no bound.
"""

from __future__ import annotations

import msgspec

MAX_ELEMENTS = 200
"""Of a state with more entries only what costs little is checked, so that tests with thousands of them take no longer."""


class Switch(msgspec.Struct):
    """One for the process."""

    whole_states: bool = False


CHECKED = Switch()
