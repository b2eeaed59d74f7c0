"""The handles and the pytest plugin, without a broker."""
