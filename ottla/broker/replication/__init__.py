"""A broker as a replica: it follows leaders elsewhere, and looks after the in-sync sets of the partitions that it leads.

- `fetch_session`: the follower's side of a fetch session (KIP-227, FetchSessionHandler): which partitions a request has to name.
- `fetcher`: fetches what this broker follows from one leader (kafka.server.ReplicaFetcherThread, RemoteLeaderEndPoint).
- `follower_log`: carries out on a follower's log what `Following` has decided from its leader's answer.
- `in_sync_changes`: asks the controller for other in-sync sets, one request at a time (kafka.server.AlterPartitionManager).
- `manager`: which partitions this broker leads and follows, and the work that comes of it (kafka.server.ReplicaManager).
"""
