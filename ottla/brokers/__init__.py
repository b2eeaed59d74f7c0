"""Several brokers and their controller on this machine, each a process of its own, started and stopped by one parent.

- `parent`: the parent of a cluster's processes: starts them in order, says how far it is, and stops them in order.
- `plan`: which processes a cluster has, and the settings of each.
- `processes`: the processes of a cluster: each is forked from this one, which has imported all that they need, and says when it is
  ready.
"""
