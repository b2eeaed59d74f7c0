"""The switch for checks of whole states after each change, in addition to the cheap asserts, which are always on.

Tests and simulations turn these checks on, so that a wrong state is detected where it arises and not later by a client. A broker
that serves clients never does, because the size of a whole state has no bound.
"""

from __future__ import annotations

import msgspec

MAX_ELEMENTS = 200
"""States with more entries get only cheap checks, so that tests with thousands of entries take no longer."""


class Switch(msgspec.Struct):
    """The switch of this process."""

    whole_states: bool = False


CHECKED = Switch()
