"""Actions: the changes that a user makes on a console page, sent as requests to the brokers of any Kafka cluster, or to its schema
registry.

- `action`: what an action is, the preview that the user confirms, and the result.
- `configs`: sets and unsets configs of topics, brokers and groups.
- `encoded_parts`: encodes the key and the value of a produced record by schemas of the registry.
- `groups`: resets and deletes the offsets of a group, and deletes groups.
- `produce_arguments`: the arguments of the ``ottla produce`` command that writes a record.
- `records`: produces a record, and deletes records.
- `registry`: finds an action by its name, and carries it out or previews it.
- `schemas`: registers and deletes schemas, and sets compatibility levels.
- `topics`: creates and deletes topics, adds partitions, and elects leaders.
- `transactions`: aborts a transaction.
"""
