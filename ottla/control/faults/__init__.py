"""Faults as values, and the `Interception` that carries them out. docs/faults.md describes them for users.

- `added_fault`: a fault at work: the number of matches, the number of hits, and what the fault holds.
- `api_names`: the names that people give: of APIs, of their fields and of Kafka's errors.
- `error_responses`: puts an error into an answer where the API carries errors: for the whole request, or for the topics and
  partitions that a fault is about, while the others are really carried out.
- `fault`: a fault as a value: which requests or transactions it is about, and what happens to them.
- `hits`: the requests and transactions that a fault hit, as plain values, because a request's bytes lie in a buffer that
  is reused.
- `matching`: decides whether a fault is about a request or about a transaction.
- `parsing`: reads faults from JSON, or from YAML, which includes JSON.
- `rates`: the rates of bytes at which faults slow requests and answers down.
- `registry`: the faults of one broker: which were added, how often each was triggered, and the `Interception` that the broker asks.
- `remote_faults`: adds and reads faults of a broker in another process, through the broker's control API.
- `request_targets`: finds what a request names: topics and their partitions, groups and transactional ids, by the fields' names in
  Kafka's schemas.
- `responses`: builds whole responses from JSON values, by the field names of Kafka's schemas.
- `verdict`: combines the faults that hit a request into the one `Verdict` that the broker carries out.
"""
