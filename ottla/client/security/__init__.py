"""TLS, SASL and tokens of the client.

- `authentication`: authenticates a connection by SASL, with SaslHandshake and SaslAuthenticate (KIP-43, KIP-152).
- `client_config`: parses the address of a cluster and the client's credentials from options with Kafka's property names.
- `http_client`: the HTTP client of token endpoints and schema registries.
- `http_deadline`: one deadline for a whole HTTP exchange.
- `listener_probe`: after a failed connection, finds out whether the listener uses TLS and SASL.
- `sasl`: SASL exchanges as generators of bytes: PLAIN, SCRAM and OAUTHBEARER, without socket and clock.
- `tls`: makes TLS connections to brokers, and explains TLS errors in one line.
- `tokens`: gets bearer tokens from the user's function, or from an OAuth endpoint (KIP-768).
- `unsecured_login`: makes unsecured tokens from the options of a login module, for tests.
"""
