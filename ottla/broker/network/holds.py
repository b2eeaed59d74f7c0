"""What may stop a connection for a while."""

from __future__ import annotations


class Hold:
    """Why no further request of a connection is handled, a bit each. Any of them also stops the reading.

    Plain numbers: they are looked at for every request, and an `enum.IntFlag` takes a microsecond to do so.
    """

    PEER = 1
    """The client does not take its answers. `Connection.resume_writing` releases it."""
    STEPS = 2
    """A request is worked off in steps. `Connection._steps_ended` releases it."""
    WAITING = 4
    """Too many requests wait for their answers, or they keep too much in memory. `Connection._fill` releases it."""
    REQUESTS = 8
    """The memory for the requests of all connections is used up. The budget's call of `Connection.go_on` releases it."""
    RESPONSES = 16
    """The memory for the answers to all connections is used up. The budget's call of `Connection.go_on` releases it."""
    TURN = 32
    """Other connections have their turn. `Connection._next_turn` releases it."""
    MUTED = 64
    """A `broker.interception.Verdict` keeps the client waiting after an answer. The timer of `Connection.mute` releases it."""
