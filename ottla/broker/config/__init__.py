"""Settings by Kafka's names: what exists (keys.txt), what a broker is set to, what a topic is set to."""
