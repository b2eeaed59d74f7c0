"""The client with which the sink and the sources reach a cluster: connections, TLS, SASL, tokens, topics.

- `batch_fetcher`: fetches the batches of a partition from a broker, including those of aborted and open transactions.
- `batch_limits`: asks the broker for the largest batch of a topic, so that a record that is too large is noticed before it stops a
  transaction.
- `client_config`: the address of a cluster and the client's credentials, from Kafka's property names as Spark's ``kafka.*`` options
  have them.
- `connection`: a connection to one broker, opened, secured and authenticated as `connecting.Connecting` says, and authenticated
  again when its session ends.
- `diagnosis`: finds out whether the listener at an address uses TLS and SASL, after a connection to it has failed without an error
  message.
- `http_client`: the one HTTP client of this package.
- `jaas`: parses Kafka's ``sasl.jaas.config``: a login module of Java and its options (org.apache.kafka.common.security.JaasConfig).
- `sasl`: SASL conversations in bytes: PLAIN, SCRAM and OAUTHBEARER, without socket and clock.
- `stock_client`: librdkafka's settings for a cluster's address and the client's credentials (its CONFIGURATION.md).
- `tls`: TLS to a broker: the trusted certificates, the client's own certificate, and errors in one line.
- `tokens`: bearer tokens from a function of the user, or from an OAuth endpoint with the client credentials grant (KIP-768).
- `topics`: the topics that can be written to, and their numbers of partitions.
- `wire`: a small blocking Kafka client for what stock producers cannot do: many processes that share one transaction.
"""
