"""The web console: browser pages that show and change a broker or cluster, served by the HTTP servers of `ottla.control`.

- `actions`: the changes that a user makes on a page, with their previews.
- `client_values`: converts results of `ottla.client` to the types of `ottla.broker.view`.
- `client_view`: reads the state of any cluster with a Kafka client.
- `cluster_view`: the interface through which pages read the state of a cluster.
- `configs`: the page ``configs``: configs with their defaults and documentation.
- `deadline`: the time limit for reading a page's values, and a Kafka client that stops at it.
- `decoding`: decodes keys and values for display, and recognises their format.
- `download`: downloads the records that a page's query selects, as JSON lines or CSV.
- `elsewhere`: serves the console of a cluster that is not in this process.
- `finding`: finds topics, groups and transactional ids by a part of their name.
- `group_reasons`: explains why a group has lag, with the texts of ``ottla why``.
- `groups`: the pages ``groups`` and ``group``: the lag of groups, and its reasons.
- `kept_reads`: caches lists of all topics, groups or partitions, for a time in proportion to their length.
- `message_filter`: builds the filter of the page ``messages`` from the fields of its form.
- `messages`: the page ``messages``: the records of a topic's partitions, as readers of each isolation level see them.
- `overview`: the page ``overview``: a summary of the broker or cluster.
- `own_broker`: reads the state of the cluster from this process's broker.
- `page_request`: the request of a console page: query parameters, and access to the broker.
- `paging`: selects the rows of a long list that one page shows.
- `registered_values`: decodes values with the schemas of the broker's schema registry.
- `search`: searches partitions for records, newest or oldest first, within a budget.
- `shown_record`: a record as a page shows it, and the page ``record``.
- `site`: serves the console's files to every client, and the values of pages to clients with the token.
- `steering`: the page ``steering``: the broker's faults and clock.
- `topics`: the pages ``topics`` and ``topic``: sizes and offsets of partitions.
- `transactions`: the pages ``transactions`` and ``transaction``: the state and history of transactional ids.
- `values`: maps each page's name to the function that reads its values.
"""
