"""The phase of a broker between its start and its stop, for its work in the background."""

from __future__ import annotations

import msgspec


class Lifecycle(msgspec.Struct):
    """Shared by all parts of one broker. The broker itself sets the flags; every part may count a bug."""

    is_serving: bool = False
    """Whether clients may connect. From then on long work must run in steps."""
    is_leaving: bool = False
    """Whether the broker has begun to stop. A member of a cluster goes on serving until its controller has let it go."""
    is_stopping: bool = False
    """Whether the directory is about to be closed. From then on no work may begin."""
    unexpected_errors: int = 0
    """How many unexpected exceptions were logged. Each of them is a bug of the broker."""
