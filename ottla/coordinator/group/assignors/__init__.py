"""Assignors of the newer group protocols (KIP-848): pure functions from members and topics to a target assignment.

In these protocols the broker assigns; in classic groups a member does. The names are those of ``group.consumer.assignors``.
"""
