"""Faults, which tests configure, and the `Interception` that applies them in a broker. docs/faults.md describes them for users.

- `added_fault`: the state of a fault that was added to a broker: matches, hits, and held requests and transactions.
- `api_names`: parses names of APIs, of their fields and of Kafka's errors. The error for a wrong name suggests the nearest names.
- `apis`: the names of Kafka's APIs as an enumeration, for faults in Python.
- `error_responses`: puts an error into a response, for the whole request or only for matching topics and partitions.
- `fault`: a fault as a value: which requests or transactions it matches, and how it changes their handling.
- `hits`: descriptions of the requests and transactions that a fault hit.
- `matching`: decides whether a fault matches a request or a transaction.
- `parsing`: parses faults from JSON or YAML.
- `rates`: the byte rates to which faults limit requests and responses.
- `registry`: the faults of one broker, and the `Interception` that the broker calls.
- `remote_faults`: adds and reads faults of a broker in another process, through the broker's control API.
- `request_targets`: finds the topics, partitions, groups and transactional ids in a request, by the fields' names in Kafka's
  schemas.
- `responses`: builds whole responses from JSON values, by the field names of Kafka's schemas.
- `verdict`: combines all faults that hit a request into one `Verdict`, which the broker carries out.
"""
