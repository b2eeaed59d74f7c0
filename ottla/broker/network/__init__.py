"""Clients' connections: cuts bytes into frames, dispatches requests to handlers, sends responses in the order of the requests.

- `addresses`: the addresses on which the broker listens, and the addresses that it advertises to clients.
- `answers`: keeps the responses of a connection in the order of its requests, without a socket.
- `connection`: one client's connection.
- `connection_memory`: counts the memory of one connection, and reports it to the budgets of all connections.
- `dispatch`: decodes a frame, calls the handler of its API, and encodes the response, without a socket.
- `framing`: cuts the bytes of a connection into frames, without a socket.
- `intercepted`: handles a request according to the `Verdict` of an interception.
- `key_sets`: the public keys of an identity provider, from a file or a URL.
- `listener`: the settings of listeners, and the connections of all listeners with their limits.
- `listener_security`: creates the connections of all listeners, with or without TLS and SASL.
- `pause_reasons`: the reasons why a connection temporarily handles no requests.
- `reloading`: loads the keys and certificates of a listener with TLS again while the broker runs (KIP-226).
- `request_history`: reports the responses to requests about transactional ids to a `TransactionListener`.
- `sasl_dispatch`: dispatches the requests of one connection on a listener with SASL: authenticates the client first.
- `secured`: how the clients of one listener with TLS or SASL connect and authenticate.
- `throttle`: mutes a connection while its client is throttled.
- `tls`: the TLS context of a listener, and the handshakes of accepted connections.
- `tls_alerts`: sends the TLS alert of a failed handshake.
- `tls_writing`: encrypts responses in pieces, as fast as the client reads them.
- `wait_committed`: delays the responses of coordinators until the records they depend on are committed (below the high watermark).
- `within_quotas`: handles requests while there are quotas, and throttles clients that exceed a quota.
"""
