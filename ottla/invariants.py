"""Says whether whole states are checked after each change, in addition to the cheap asserts that are always made.

Tests and simulations turn these checks on, so that a wrong state is seen where it arises and not later by a client. A broker that
serves clients never does, because the size of a whole state has no bound.
"""

from __future__ import annotations

import msgspec

MAX_ELEMENTS = 200
"""For a state with more entries only cheap checks are made, so that tests with thousands of entries take no longer."""


class Switch(msgspec.Struct):
    """The switch of this process."""

    whole_states: bool = False


CHECKED = Switch()
