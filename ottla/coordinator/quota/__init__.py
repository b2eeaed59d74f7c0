"""Decides how long clients are throttled, by the quotas of users, client ids and addresses. Time is an argument.

- `client_quota_manager`: the quotas of one kind and the use that each client makes of them.
- `accept_limits`: how many connections a broker and its listeners accept per second.
- `connection_rates`: the quotas of connections by client address.
- `mutation_quota`: the quota of topics' partitions that clients create and delete, with a token bucket for each client.
- `precedence`: which quota applies to a client, and which clients share it.
- `sampled`: rates and means over the samples of a moving window.
- `sensors`: a bounded collection of the sensors of clients.
- `token_bucket`: a token bucket, which allows bursts.
"""
