"""The switch for invariant checks of a whole state (such as a coordinator's) after each change. Cheap asserts are always enabled.

Tests and simulations enable these checks, to detect a wrong state where it arises. Brokers do not, because the time of a check
depends on the size of the state.
"""

from __future__ import annotations

import msgspec

MAX_ELEMENTS = 200
"""States with more entries than this get only cheap checks, so that tests with thousands of entries stay fast."""


class Switch(msgspec.Struct):
    whole_states: bool = False


CHECKED = Switch()
