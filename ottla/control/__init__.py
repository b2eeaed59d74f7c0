"""The state of a broker that people steer and observe, as values. This room lies above the broker, which knows nothing of it."""
