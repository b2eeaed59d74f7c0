"""What people steer of a broker, and see of it, as values. Above the broker, which knows nothing of this room."""
