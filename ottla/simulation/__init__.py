"""Brokers, clock, clients, network and disks in one process, driven by a seed. Only tests and tools import this package.

- `broker`: a broker without sockets, disk or real clock: requests are bytes, and a test advances the time.
- `checker`: checks exactly-once: compares the attempts of clients and their responses with the final state.
- `client`: a client of a simulated broker.
- `committed_transactions`: checks the transactions of several brokers by committed records, batches and markers.
- `controller`: a controller without sockets, disk or real clock, like `simulation.broker`.
- `coroutines`: runs the start and the stop of a server, which are coroutines, in simulated time.
- `disk`: the disk of a simulated broker.
- `env`: the environment of a simulated broker: simulated time, the given files, randomness from a seed, and no sockets.
- `faults`: carries out the faults of a plan in its world.
- `faulty_filesystem`: files in memory, on a disk that fails single operations or, until a test ends the fault, all operations.
- `history`: the attempts of clients and their responses, for `simulation.checker`.
- `judging`: plays a plan and judges it: compares the history with the final state that clients and the files show.
- `links`: a network driven by a seed: delays, split writes, cuts of one or both directions, machines without power.
- `machines`: the machines of a world: one broker that is its own controller, or several brokers and their controller.
- `memory_filesystem`: files in memory, for simulations and tests without a disk.
- `network`: connections between simulated brokers: data goes from protocol to protocol in turns of a simulated world.
- `node`: one machine of a simulated world: its environment, its disk, and the processes of its server, one after the other.
- `plan`: the plan of a world: its actors, and the faults with their times.
- `replicas`: checks invariants between the replicas of several brokers while a world runs.
- `running`: plays many seeds on all cores: collects findings and rare states, and shrinks failing plans.
- `scheduler`: simulated time: pending calls and when they are due.
- `tasks`: actors as generators.
- `torn_disk`: the states in which a power cut, a kill or a torn write may leave the files of a `TracingFilesystem`.
- `tracing_filesystem`: files in memory with a trace of all operations, for `simulation.torn_disk`.
- `watch`: checks the coordinators' states in memory after each step of a world.
- `world`: a world driven by a seed: brokers, clients, network and disks on one scheduler in one process.
"""
