"""What the coordinators of several brokers ask of each other: markers, and partitions of transactions."""
