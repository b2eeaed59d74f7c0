"""What a controller decides: registrations, placement, elections, in-sync replicas, reassignment. Pure, over `ClusterState`."""
