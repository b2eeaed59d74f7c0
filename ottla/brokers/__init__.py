"""Several brokers and their controller on this machine, each a process of its own, started and stopped by one parent.

- `control_socket`: the Unix socket by which `ottla cluster restart` reaches the parent of a cluster on the same machine.
- `kept_ports`: the ports of a cluster's nodes, which stay the same from one start to the next.
- `parent`: the parent of a cluster's processes: starts them in order, says how far it is, and stops them in order.
- `plan`: which processes a cluster has, and the settings of each.
- `processes`: the processes of a cluster: each is forked from this one, which has imported all that they need, and says when it is
  ready.
- `restarts`: when nodes that ended by themselves are started again: after a delay that doubles while a node keeps ending.
"""
