"""The asyncio shell: sockets, dispatch, one handler file per API, partitions, clock and config."""
