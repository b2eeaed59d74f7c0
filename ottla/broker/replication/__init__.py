"""A broker as a replica: fetches from leaders on other brokers, and maintains the in-sync sets of the partitions that it leads.

- `fetch_session`: the follower's state of a fetch session (KIP-227, FetchSessionHandler): chooses the partitions to name.
- `fetcher`: fetches from one leader for all partitions that follow it (kafka.server.ReplicaFetcherThread, RemoteLeaderEndPoint).
- `follower_log`: applies the decisions of `Following` to a follower's log.
- `in_sync_changes`: requests changes of in-sync sets from the controller, one request at a time
  (kafka.server.AlterPartitionManager).
- `manager`: the partitions that this broker leads and follows, with their fetchers (kafka.server.ReplicaManager).
"""
