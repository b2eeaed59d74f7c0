"""Security as pure decisions: nothing here reads a clock, draws a random number or opens anything.

- `acl`: ACLs and the authorizer that decides by them.
- `jaas`: Kafka's ``sasl.jaas.config``: a login module with its options.
- `principal`: the identity of a client (KafkaPrincipal).
- `sasl`: the server's side of SASL: mechanisms, and the states of a connection that authenticates.
- `tls`: keys and certificates from key stores, and the principals of client certificates.
"""
