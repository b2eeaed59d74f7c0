"""What a leader and its followers decide about a partition's replicas. Pure: offsets and times come as arguments."""
