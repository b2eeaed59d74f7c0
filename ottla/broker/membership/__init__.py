"""A broker as a member of a cluster whose controller is another process: registration, heartbeats, the metadata log followed."""
