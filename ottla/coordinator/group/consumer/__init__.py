"""Consumer groups of KIP-848: the broker assigns, and each member goes from its current assignment to its target by heartbeats."""
