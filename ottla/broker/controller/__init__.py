"""The controller of several brokers, in a process of its own: a server with the cluster's metadata log and nothing else.

- `changes`: logs and counts a controller's decisions on fencing, leaders and in-sync replicas, with the reason.
- `metadata`: the cluster's metadata at its controller: decides what brokers ask for, and what the end of a broker's session brings
  about.
- `placement`: where a controller puts the partitions of new topics: spread over brokers and racks, or as the client assigns them.
- `server`: the controller of several brokers: builds its parts, starts them and stops them.
- `services`: the parts of a controller that its handlers may use.
- `sessions`: what time brings about at a controller: brokers' sessions end, and leaderships go back to preferred leaders.
"""
