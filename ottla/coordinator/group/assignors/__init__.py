"""Assignors of the newer group protocols (KIP-848): pure functions from members and topics to a target assignment.

The broker assigns here, unlike in classic groups, where a member does it. Names are those of ``group.consumer.assignors``.
"""
