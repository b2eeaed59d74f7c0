"""The console: browser pages that show the state of a broker. It depends on `ottla.control`, whose control API serves it.

- `cluster_view`: the port through which the pages see a cluster.
- `deadline`: the deadline for reading a page's values, and the client that it applies to.
- `group_reasons`: explains why a group does not advance, in the words of ``ottla why``.
- `groups`: the pages ``groups`` and ``group``: the lag of groups, and its reasons.
- `messages`: the page ``messages``: the records of a partition, as readers of each isolation level see them.
- `overview`: the page ``overview``: the broker as a whole.
- `own_broker`: the cluster as the broker in this process knows it: its read model, made on its event loop.
- `page_request`: the request of a console page: its query, and access to the broker.
- `paging`: returns part of a long list, so that a console page is small however much data the broker has.
- `site`: the console on the control API's server: its files for every client, the values of its pages for clients with the token.
- `steering`: the page ``steering``: the faults and the clock.
- `topics`: the pages ``topics`` and ``topic``: the size of partitions, and the offsets up to which readers can read them.
- `transactions`: the pages ``transactions`` and ``transaction``: the state of each transactional id, and its past transactions.
- `values`: the values of the pages, by the pages' names.
"""
