"""The schema registry: Confluent's REST API over the topic ``_schemas`` of the registry's broker.

State is replayed from the topic; a command checks a request against the state and returns records, which are appended, then
replayed. The room is imported only for ``ottla serve --schema-registry``, and needs the libraries of the extra ``ottla[registry]``.

- `commands`: the changes of the registry, as functions from state and request to records.
- `comparison`: compares a schema with versions of its subject.
- `compatibility`: compatibility levels.
- `errors`: the errors of the API.
- `formats`: the schema types Avro, JSON Schema and Protobuf.
- `queries`: finds versions and schemas in the state.
- `records`: the records of the topic, in Confluent's format.
- `request`: a request, and the schemas in its body.
- `routes`: the paths of the API.
- `schema_log`: reads and writes the topic.
- `schema_text`: a schema as it is stored.
- `server`: the HTTP server.
- `state`: subjects, versions, levels and modes.
"""
