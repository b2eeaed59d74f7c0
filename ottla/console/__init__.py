"""The console: browser pages that show the state of a broker or cluster, served by the servers of `ottla.control`.

- `actions`: the changes that a user makes on a page, with their previews.
- `client_values`: converts values of `ottla.client` to values of the read model.
- `client_view`: the state of any cluster from the responses to a client's requests.
- `cluster_view`: the interface through which pages read the state of a cluster.
- `configs`: the page ``configs``: configs with their defaults and documentation.
- `deadline`: the deadline for reading a page's values, and a client that observes the deadline.
- `decoding`: decodes keys and values for display, and recognises their format.
- `download`: the records of a query as JSON lines or CSV.
- `elsewhere`: serves the console of a cluster that is not in this process.
- `finding`: finds topics, groups and transactional ids by a part of their name.
- `group_reasons`: explains why a group does not advance, in the words of ``ottla why``.
- `groups`: the pages ``groups`` and ``group``: the lag of groups, and its reasons.
- `kept_reads`: caches values of a whole cluster, for a time in proportion to its size.
- `message_filter`: the filter of a page of records, from the fields of its form.
- `messages`: the page ``messages``: the records of a topic's partitions, as readers of each isolation level see them.
- `overview`: the page ``overview``: the broker as a whole.
- `own_broker`: the state of the cluster from the read model of this process's broker.
- `page_request`: the request of a console page: query parameters, and access to the broker.
- `paging`: returns part of a long list, to limit the size of a page.
- `registered_values`: decodes values with the schemas of the broker's schema registry.
- `search`: searches partitions for records, newest or oldest first, within a budget.
- `shown_record`: a record as a page shows it, and the page ``record``.
- `site`: serves the console's files to every client, and the values of pages to clients with the token.
- `steering`: the page ``steering``: the faults and the clock.
- `topics`: the pages ``topics`` and ``topic``: sizes and offsets of partitions.
- `transactions`: the pages ``transactions`` and ``transaction``: the state and history of transactional ids.
- `values`: the functions that read the values of each page, by name.
"""
