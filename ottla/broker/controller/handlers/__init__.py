"""The APIs that a controller alone has, or answers in another way than a broker: one module for each, named as its schema."""
