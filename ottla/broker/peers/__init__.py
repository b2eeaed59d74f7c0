"""Connections of this process to other brokers and to the controller."""
