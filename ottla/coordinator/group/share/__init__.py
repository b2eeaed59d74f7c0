"""Share groups (KIP-932): the broker assigns, several members may share a partition, and a member reaches its target at once."""
