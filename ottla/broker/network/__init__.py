"""Clients' connections: cuts bytes into frames, dispatches requests to handlers, sends responses in the order of the requests.

- `addresses`: the addresses on which the broker listens, and the addresses that it advertises to clients.
- `answers`: keeps the answers of a connection in the order of its requests, without a socket.
- `connection`: one client's connection: receives frames, has them handled, and sends the answers in the order of the requests.
- `connection_memory`: counts the memory of one connection, and reports it to the budgets of all connections.
- `dispatch`: decodes a frame, calls the handler of its API, and encodes the answer, without a socket.
- `framing`: cuts the bytes of a connection into frames, without a socket.
- `intercepted`: handles a request as the `Verdict` of an interception says, with its delays and its changed answer.
- `listener`: the settings of listeners, and the connections of all listeners with their limits.
- `pause_reasons`: the reasons for which a connection handles no requests for a while.
- `request_history`: tells a `TransactionListener` of the answers to requests about transactional ids.
- `wait_committed`: answers of coordinators leave when what they tell of is committed: below the high watermark of the coordinator's
  partition.
"""
