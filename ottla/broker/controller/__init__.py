"""The controller of a cluster, in a process of its own: a server with the cluster's metadata log and nothing else.

- `changes`: logs and counts a controller's decisions on fencing, leaders and in-sync replicas, with the reason.
- `metadata`: the cluster's metadata at its controller: decides requests of brokers and clients, and fences brokers whose session
  ends.
- `placement`: assigns the replicas of new partitions: spread over brokers and racks, or as the client specifies.
- `server`: the controller process of a cluster: builds, starts and stops its parts.
- `services`: the parts of a controller that its handlers may use.
- `sessions`: the periodic decisions of a controller: ends brokers' sessions, elects preferred leaders and unclean leaders.
"""
