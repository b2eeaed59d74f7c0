"""Random inputs for classes of Apache Kafka's streams groups, with the recorded results of Apache Kafka 4.4.0."""
