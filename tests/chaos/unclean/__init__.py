"""Failures of last in-sync replicas, with unclean elections enabled and disabled: ``python -m tests.chaos --unclean on|off``.

- `power`: removes unsynced data from a broker's logs, as a power cut does; `served` is the broker that records synced lengths.
- `elections`: reads leader elections from the controller's log.
- `witness`: reads all partitions during the run, and stores offsets, epoch and CRC of each batch below a high watermark.
- `checker`: checks that each lost batch is explained by an unclean election.
- `cards`: the faults.
- `going_on`: writes to all partitions once more after the last fault.
- `campaign`: starts a cluster, injects faults and checks the results, repeatedly.
"""
