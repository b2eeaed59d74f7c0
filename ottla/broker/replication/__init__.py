"""A broker as a replica: it follows leaders elsewhere, and looks after the in-sync sets of the partitions that it leads."""
