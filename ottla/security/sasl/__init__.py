"""The server's side of SASL (RFC 4422) as Kafka has it: mechanisms, and the states of a connection that authenticates.

- `exchange`: the interface of all mechanisms: one exchange with a client, and its errors.
- `oauthbearer`: the mechanism OAUTHBEARER (RFC 7628, KIP-255).
- `plain`: the mechanism PLAIN (RFC 4616).
- `scram`: the mechanisms SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, KIP-84).
- `server`: the authentication of one connection (SaslServerAuthenticator).
- `signed_tokens`: tokens of OAUTHBEARER that are verified by the keys of an identity provider (KIP-768).
- `states`: the states of a connection that authenticates, as a table.
- `unsecured_tokens`: tokens of OAUTHBEARER without a signature, for development and tests.
"""
