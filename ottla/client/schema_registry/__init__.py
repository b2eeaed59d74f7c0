"""A client of schema registries, and codecs for values in their wire format.

- `avro_expansion`: refuses Avro schemas that decode few bytes to very many objects.
- `decoding`: decodes values to JSON-like values.
- `encoding`: encodes JSON values by a registered schema, or registers a schema first.
- `framing`: Confluent's wire format.
- `json_validation`: validates values by a JSON Schema.
- `protobuf_messages`: messages of a Protobuf schema of a registry.
- `references`: the schemas to which a schema refers, in order of dependency.
- `registry_admin`: lists subjects and versions, registers and deletes schemas, and sets compatibility levels.
- `registry_client`: requests to a registry.
- `request_cache`: a bounded cache of the results of requests.
- `strict_json`: parses JSON with errors in words of ottla.
"""
