"""Faults that are planted into a cluster's brokers and controller. A simulation with several brokers must detect every fault."""

from __future__ import annotations

from tests.mutants.mutants import Mutant

LEADER = "ottla/coordinator/replication/leader.py"
FOLLOWER = "ottla/coordinator/replication/follower.py"
BARRIER = "ottla/broker/partitions/barrier.py"
MARKERS = "ottla/broker/peers/marker_transport.py"
VERIFICATION = "ottla/broker/peers/remote_verification.py"


def planted(name: str, file: str, function: str, old: str, new: str) -> Mutant:
    return Mutant(name, file=file, function=function, old=old, new=new, caught_by="")


CLUSTER = [
    planted(
        "nothing waits for the high watermark",
        BARRIER,
        "Barrier._behind",
        "offset > log.high_watermark",
        "False",
    ),
    planted(
        "a coordinator answers before the high watermark",
        "ottla/broker/network/wait_committed.py",
        "response_once_committed",
        "position.end_offset > partition.log.high_watermark",
        "False",
    ),
    planted(
        "a producer is answered before the high watermark",
        "ottla/broker/handlers/support/produce_append.py",
        "append_batches",
        "await _wait_for_replicas(ports, state.unreplicated, leaderships_lost, request.timeout_ms)",
        "pass",
    ),
    planted(
        "a log is truncated to the high watermark instead of the epoch's end",
        FOLLOWER,
        "truncation_offset",
        "diverging.end_offset < 0",
        "True",
    ),
    planted(
        "an out-of-sync replica is elected",
        "ottla/coordinator/controller/elections.py",
        "PartitionChange._may_lead_cleanly",
        "is_whole = replica in self.isr or (not self.isr and replica in self.elr)",
        "is_whole = True",
    ),
    planted(
        "markers are sent before the decision is committed",
        BARRIER,
        "Barrier.before_effect",
        "self._behind(log, offset, committed.end)",
        "committed.end(True)",
    ),
    planted(
        "markers of an old coordinator are accepted",
        "ottla/storage/producer_state.py",
        "ProducerState.check_marker",
        "marker.coordinator_epoch < entry.coordinator_epoch",
        "False",
    ),
    planted(
        "the high watermark does not wait for followers",
        LEADER,
        "Leader.high_watermark",
        "reached = follower.end_offset",
        "",
    ),
    planted(
        "a marker is answered before it is committed",
        "ottla/broker/handlers/write_txn_markers.py",
        "write_markers",
        "ports.barrier.is_replicated",
        "False",
    ),
    planted(
        "a follower uses its log end offset as high watermark",
        FOLLOWER,
        "taken_over",
        "min(append.high_watermark, log.end_offset)",
        "log.end_offset",
    ),
    planted(
        "a replica is in sync before it has caught up",
        LEADER,
        "Leader._may_join",
        "follower.end_offset >= max(high_watermark, self.start_offset)",
        "True",
    ),
    planted(
        "a coordinator is not unloaded after its partition has moved",
        "ottla/broker/coordinators/shards.py",
        "Shards.resigned",
        "served = self._serving.pop(index, None)",
        "served = None",
    ),
    planted(
        "an elected coordinator resumes no prepared transaction",
        "ottla/broker/coordinators/shards.py",
        "Shards.elected",
        "self._loaded(opening.shard)",
        "",
    ),
    planted(
        "a batch joins a transaction without a request to its coordinator",
        VERIFICATION,
        "CoordinatorVerification.join",
        "self._ask_there(leader, [question], then)",
        "then(None)",
    ),
    planted(
        "a marker without a response counts as written",
        MARKERS,
        "LeaderTransport._answered",
        "Code.REQUEST_TIMED_OUT",
        "Code.NONE",
    ),
    planted(
        "a diverging follower continues to fetch",
        FOLLOWER,
        "Following.fetched",
        "answer.diverging is not None",
        "False",
    ),
    planted(
        "a block of producer ids is assigned twice",
        "ottla/coordinator/controller/registrations.py",
        "allocate_producer_ids",
        "end = first + PRODUCER_ID_BLOCK",
        "end, first = first + PRODUCER_ID_BLOCK, 0",
    ),
    planted(
        "a follower keeps no producer state",
        "ottla/storage/following.py",
        "_append",
        "log.producers.apply_data(header, header.base_offset, header.last_offset, timestamp_ms, now_ms)",
        "",
    ),
    planted(
        "a follower treats markers as data",
        "ottla/storage/following.py",
        "_append",
        "marker is not None",
        "False",
    ),
    planted(
        "consumers read up to the log end offset",
        "ottla/storage/reading.py",
        "read",
        "bound = lso if committed else log.log_end_offset if to_end else log.high_watermark",
        "bound = lso if committed else log.log_end_offset",
    ),
    planted(
        "a follower counts as having records that it was only sent",
        LEADER,
        "Leader.fetched",
        "follower.fetched(fetch_offset, start_offset, log_end_offset, broker_epoch, now_ms)",
        "follower.fetched(log_end_offset, start_offset, log_end_offset, broker_epoch, now_ms)",
    ),
    planted(
        "a new leader starts with its log end offset as high watermark",
        "ottla/broker/partitions/partitions.py",
        "Partition.lead",
        "self.advance()",
        "self.commit(self.log.log_end_offset)",
    ),
    planted(
        "the high watermark advances below min.insync.replicas",
        LEADER,
        "Leader.high_watermark",
        "self.is_under_min",
        "False",
    ),
    planted(
        "a follower fetches again before the fetched records are synced",
        "ottla/broker/replication/fetcher.py",
        "ReplicaFetcher._answered",
        "self._barrier.never_waits",
        "True",
    ),
    planted(
        "a follower stores no leader epochs",
        "ottla/storage/following.py",
        "_append",
        "log.epochs.assign(header.leader_epoch, header.base_offset)",
        "pass",
    ),
    planted(
        "a batch is appended after a verification that is not committed",
        VERIFICATION,
        "CoordinatorVerification._ask_here",
        "coordinator.log.high_watermark == coordinator.log.log_end_offset",
        "True",
    ),
    planted(
        "a marker for a partition without leader counts as written",
        MARKERS,
        "LeaderTransport.write_txn_markers",
        "Code.NOT_LEADER_OR_FOLLOWER",
        "Code.NONE",
    ),
    planted(
        "requests that wait at a replaced leader succeed",
        BARRIER,
        "Barrier.forget",
        "then(False)",
        "then(True)",
    ),
    planted(
        "a coordinator's epoch is 0",
        "ottla/broker/coordinators/transactions.py",
        "Transactions._open",
        "TransactionShard(partition.log.partition, self._config, version, leader_epoch)",
        "TransactionShard(partition.log.partition, self._config, version, 0)",
    ),
    planted(
        "an uncommitted marker ends its transaction for readers",
        "ottla/storage/log.py",
        "Log.last_stable_offset",
        "completed.last_offset >= high_watermark and (unstable is None or completed.first_offset < unstable)",
        "False",
    ),
]
