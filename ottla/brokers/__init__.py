"""Several brokers and their controller on this machine, each in its own process, started and stopped by one parent.

- `control_socket`: the Unix socket through which `ottla cluster restart` sends commands to the parent.
- `kept_ports`: the ports of a cluster's nodes, which stay the same over restarts.
- `parent`: the parent of a cluster's processes: starts and stops them in order, and reports their state.
- `plan`: the processes of a cluster and their settings.
- `processes`: forks the processes of a cluster from the parent.
- `restarts`: schedules restarts of nodes that ended unexpectedly.
"""
