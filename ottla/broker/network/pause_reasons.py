"""The reasons that a connection temporarily handles no requests."""

from __future__ import annotations


class Hold:
    """The reasons, one bit each. While any bit is set, the connection handles no further request, and its socket is not read.

    The values are plain numbers, because they are tested for every request, and a test of an `enum.IntFlag` takes a microsecond.
    """

    PEER = 1
    """The client does not read its responses. `Connection.resume_writing` releases it."""
    STEPS = 2
    """A request waits and is not parked. `Connection._steps_ended` releases it."""
    WAITING = 4
    """Too many requests wait for their responses, or need too much memory. `Connection._fill` releases it."""
    REQUESTS = 8
    """The memory for the requests of all connections is used up. The budget's call of `Connection.go_on` releases it."""
    RESPONSES = 16
    """The memory for the responses of all connections is used up. The budget's call of `Connection.go_on` releases it."""
    TURN = 32
    """The connection has used up its time slice. `Connection._next_turn` releases it."""
    MUTED = 64
    """A `broker.hooks.interception.Verdict` mutes the connection after a response. The timer of `Connection.mute` releases it."""
