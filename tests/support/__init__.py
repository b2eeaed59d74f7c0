"""What tests of several folders share: clients, batches, logs, worlds and waiting."""
