"""Failures of last in-sync replicas, with unclean elections enabled and disabled: ``python -m tests.chaos --unclean on|off``.

- `power`: what a power cut takes from a broker's logs; `served` is the broker that notes what is on the disk.
- `elections`: elections from the controller's log.
- `witness`: reads all partitions during the run, and keeps the identity of each batch below a high watermark.
- `checker`: what may be lost by which election.
- `cards`: the faults.
- `going_on`: producers write to all partitions once more after the last fault.
- `campaign`: the rounds.
"""
