"""How far a broker has come between its start and its stop, for whatever goes on by itself."""

from __future__ import annotations

import msgspec


class Lifecycle(msgspec.Struct):
    """Shared by all parts of one broker. The broker itself sets the two flags; every part may count a bug."""

    is_serving: bool = False
    """Whether clients may come: from then on nothing long is done in one stretch."""
    is_stopping: bool = False
    """Whether the directory is about to be closed: nothing may be begun any more."""
    unexpected_errors: int = 0
    """How many errors were met that no client may see, each of which is a bug and was logged."""
