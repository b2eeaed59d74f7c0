"""Settings under Kafka's names: the known keys (keys.txt), and the settings of a broker, topic, group or client metrics."""
