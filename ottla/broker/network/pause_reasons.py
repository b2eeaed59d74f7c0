"""The reasons why a connection temporarily handles no requests."""

from __future__ import annotations


class Hold:
    """The reasons for a connection's pause, one bit each. While any bit is set, the connection handles no further request, and its
    socket is not read.

    Each reason names the method that clears its bit. The values are plain numbers for speed: they are tested for every request, and
    a test of an `enum.IntFlag` takes a microsecond.
    """

    PEER = 1
    """The client does not read its responses. Cleared by `Connection.resume_writing`."""
    STEPS = 2
    """A request is handled in several steps, and is neither parked nor answered yet. Cleared by `Connection._steps_ended`."""
    WAITING = 4
    """Too many requests wait for their responses, or need too much memory. Cleared by `Connection._fill`."""
    REQUESTS = 8
    """The memory for the requests of all connections is used up. Cleared by `Connection.go_on`, which the budget calls."""
    RESPONSES = 16
    """The memory for the responses of all connections is used up. Cleared by `Connection.go_on`, which the budget calls."""
    TURN = 32
    """The connection has used up its time slice or the limit of response bytes. Cleared by `Connection._next_turn`."""
    MUTED = 64
    """A `broker.hooks.interception.Verdict` mutes the connection after a response. Cleared by the timer of `Connection.mute`."""
    THROTTLED = 128
    """The client is throttled by a quota or by a limit on new connections. Cleared by the timer of `Throttle`."""
