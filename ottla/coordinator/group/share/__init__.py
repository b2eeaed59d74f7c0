"""Share groups of KIP-932: the broker assigns, partitions may have several members, and a member is at its target at once."""
