"""Consumer groups (KIP-848): the broker computes a target assignment, and heartbeats bring each member to its target."""
