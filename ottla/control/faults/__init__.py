"""Faults as values, and the `Interception` that carries them out. docs/faults.md describes them for users.

- `added_fault`: a fault that was added to a broker: the number of matches, the number of hits, and what it holds.
- `api_names`: parses names of APIs, of their fields and of Kafka's errors. The error for a wrong name suggests the nearest names.
- `error_responses`: puts an error into a response, as the API allows: for the whole request, or for the topics and partitions that
  a fault matches, while the others are carried out.
- `fault`: a fault as a value: which requests or transactions it matches, and what happens to them.
- `hits`: the requests and transactions that a fault hit, as plain values, because a request's bytes are in a buffer that is reused.
- `matching`: decides whether a fault matches a request or a transaction.
- `parsing`: parses faults from JSON, or from YAML, which includes JSON.
- `rates`: the byte rates by which faults slow down requests and responses.
- `registry`: the faults of one broker, and the `Interception` that the broker calls.
- `remote_faults`: adds and reads faults of a broker in another process, through the broker's control API.
- `request_targets`: finds the topics, partitions, groups and transactional ids in a request, by the fields' names in Kafka's
  schemas.
- `responses`: builds whole responses from JSON values, by the field names of Kafka's schemas.
- `verdict`: combines the faults that hit a request into the one `Verdict` that the broker carries out.
"""
