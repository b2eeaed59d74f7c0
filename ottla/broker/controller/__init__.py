"""The controller of several brokers, in a process of its own: a server with the cluster's metadata log and nothing else."""
