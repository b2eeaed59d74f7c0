"""Settings with Kafka's names: the known keys (keys.txt), and the settings of a broker, topic, group or client metrics.

- `client_metrics`: client metrics subscriptions (KIP-714): stored and shown.
- `definitions`: all config names that Apache Kafka knows, with type, default and rule, and the parsing of values.
- `effects`: the effects of Apache Kafka's config keys in ottla: each works, is refused, or is accepted without effect, which is
  logged.
- `first_topic`: a topic that a broker creates when it starts.
- `first_user`: a user that a broker creates when it starts.
- `groups`: the effective configs of a group (GroupConfig, KIP-848, 932 and 1071).
- `live_config`: the current configuration: the settings given at the start, overridden by dynamic configs that clients have set.
- `node_security`: the security of connections to other nodes.
- `rules`: the allowed values of configs: the validators of Kafka's ConfigDef, in the notation of keys.txt.
- `security`: the security of each listener: keys and certificates for TLS, SASL mechanisms with their JAAS configs.
- `security_protocols`: the security protocols of listeners.
- `settings`: the settings of a broker, as text and typed.
- `sources`: reads settings from server.properties, ``KAFKA_*`` variables, ``--set`` and flags.
- `topics`: the effective configs of a topic.
"""
