"""What tests of several packages share: levels and results of a run, clients, worlds and waiting."""
