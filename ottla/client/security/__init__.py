"""The client's credentials: TLS, SASL and tokens. Imported only for a client that has such settings.

- `authentication`: authenticates a connection by SASL, with SaslHandshake and SaslAuthenticate (KIP-43, KIP-152).
- `client_config`: parses the address of a cluster and the client's credentials from options with Kafka's property names.
- `http_client`: the HTTP client of token endpoints and schema registries.
- `listener_probe`: finds out whether a listener uses TLS and SASL after a connection has failed without an error message.
- `sasl`: SASL exchanges as generators of bytes: PLAIN, SCRAM and OAUTHBEARER, without socket and clock.
- `tls`: TLS to a broker: the trusted certificates, the client's own certificate, and errors in one line.
- `tokens`: bearer tokens from a function of the user, or from an OAuth endpoint with the client credentials grant (KIP-768).
"""
