"""TLS as Kafka configures it: keys and certificates from key stores, and the principals of client certificates.

- `cipher_suites`: translates IANA's names of cipher suites to OpenSSL's names.
- `distinguished_name`: the subject of a certificate as text (RFC 2253), as Java writes it.
- `key_stores`: keys and certificates in Kafka's key store formats: PEM, PKCS12 and JKS.
- `principal_mapping`: ``ssl.principal.mapping.rules``: from the subject of a certificate to the name of a principal.
- `validity`: the time in which a certificate is valid.
"""
