"""The schema registry: Confluent's REST API over the topic ``_schemas`` of the registry's broker.

The state is a replay of the topic. A command checks a request against the state and returns records, which are appended and then
replayed. The package is imported only for ``ottla serve --schema-registry``, and needs the libraries of the extra
``ottla[registry]``.

- `commands`: functions that turn a request for a change into records.
- `comparison`: compares a new schema with versions of its subject.
- `compilations`: parses and compares schemas, one at a time.
- `compatibility`: compatibility levels.
- `errors`: the errors of the API.
- `formats`: the schema types Avro, JSON Schema and Protobuf.
- `queries`: finds versions and schemas in the state.
- `records`: the records of the topic, in Confluent's format.
- `request`: a request, and the schemas in its body.
- `routes`: the paths of the API.
- `schema_log`: reads and writes the topic.
- `schema_text`: a schema's type, text and references.
- `server`: the HTTP server.
- `state`: subjects, versions, levels and modes.
"""
