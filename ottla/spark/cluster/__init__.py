"""The client with which the sink and the sources reach a cluster: connections, TLS, SASL, tokens, topics.

- `batch_fetcher`: fetches the batches of a partition from a broker, including those of aborted and open transactions.
- `batch_limits`: reads max.message.bytes of the topics, so that the sink builds batches that the broker accepts.
- `client_config`: parses the address of a cluster and the client's credentials from Spark's ``kafka.*`` options, which have Kafka's
  property names.
- `connection`: a connection to one broker with the TLS and SASL settings of `client_config.Connecting`; authenticates again before
  the session ends.
- `diagnosis`: finds out whether a listener uses TLS and SASL after a connection has failed without an error message.
- `http_client`: the HTTP client of this package.
- `jaas`: parses Kafka's ``sasl.jaas.config``: a login module of Java and its options (org.apache.kafka.common.security.JaasConfig).
- `sasl`: SASL exchanges as generators of bytes: PLAIN, SCRAM and OAUTHBEARER, without socket and clock.
- `stock_client`: librdkafka's settings for a cluster's address and the client's credentials (its CONFIGURATION.md).
- `tls`: TLS to a broker: the trusted certificates, the client's own certificate, and errors in one line.
- `tokens`: bearer tokens from a function of the user, or from an OAuth endpoint with the client credentials grant (KIP-768).
- `topics`: the topics that the sink can write to, and their partition counts.
- `wire`: a small blocking Kafka client for what stock producers cannot do: many processes that share one transaction.
"""
