"""The broker's asyncio part: sockets, dispatch, one handler module for each API, partitions, clock and configuration."""
