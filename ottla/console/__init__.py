"""The console: pages for a browser that show what a broker holds. It lies above `ottla.control`, whose control API serves it.

- `deadline`: one reading of a page's values: how long it may take, and the client by which it asks the broker.
- `groups`: the pages ``groups`` and ``group``: how far groups are behind, and why.
- `messages`: the page ``messages``: the records of a partition, as readers of each isolation level see them.
- `overview`: the page ``overview``: the broker as a whole.
- `page_request`: what a page of the console asks with.
- `paging`: one part of a long list, so that a page of the console is small whatever the broker holds.
- `site`: the console on the control API's server: its files for every client, the values of its pages for clients with the token.
- `steering`: the page ``steering``: the faults and the clock.
- `topics`: the pages ``topics`` and ``topic``: what lies in the partitions, and how far readers get.
- `transactions`: the pages ``transactions`` and ``transaction``: what each transactional id does, and what became of its
  transactions.
- `values`: the values of the pages, by the pages' names.
"""
