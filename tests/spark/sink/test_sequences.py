"""Tasks that write to the same partitions get their sequences one after the other."""

from __future__ import annotations

import random
import socket
import threading
from collections import defaultdict
from multiprocessing.connection import Client

import pytest

from ottla.protocol.topic_partition import TopicPartition
from ottla.spark.errors import MustAbort, PipelineError
from ottla.spark.sink.sequences import OwnSequences, SequenceServer, ServerAddress, SharedSequences, Turns
from tests.support.waiting import wait_until

A, B, C = ("t", 0), ("t", 1), ("u", 0)
WAIT_S = 60


def test_sink_task_counts_producer_sequences_by_partition() -> None:
    sequences = OwnSequences()
    assert sequences.take([A, B]) == {A: 0, B: 0}
    sequences.give_back({A: 5, B: 0})
    assert sequences.take([A, B]) == {A: 5, B: 0}


def test_producer_sequence_of_a_partition_in_use_is_not_given_to_another_sink_task() -> None:
    turns = Turns()
    assert turns.take([A]) == {A: 0}
    assert turns.take([A, B]) == {B: 0}
    turns.give_back({A: 7})
    assert turns.take([A, C]) == {A: 7, C: 0}


def test_sink_task_waits_for_the_sequence_of_a_partition_in_use() -> None:
    turns = Turns()
    turns.take([A])
    got: list[dict[TopicPartition, int] | None] = []
    thread = threading.Thread(target=lambda: got.append(turns.take([A])))
    thread.start()
    turns.give_back({A: 3})
    thread.join(WAIT_S)
    assert got == [{A: 3}]


def test_waiting_sink_tasks_get_no_sequences_if_the_transaction_fails() -> None:
    turns = Turns()
    turns.take([A])
    got: list[dict[TopicPartition, int] | None] = []
    threads = [threading.Thread(target=lambda: got.append(turns.take([A]))) for _ in range(3)]
    for thread in threads:
        thread.start()
    turns.lose()
    for thread in threads:
        thread.join(WAIT_S)
    assert got == [None] * 3


def test_random_sink_tasks_write_each_sequence_of_a_partition_once_and_in_order() -> None:
    turns = Turns()
    partitions = [A, B, C]
    log: dict[TopicPartition, list[int]] = defaultdict(list)

    def work(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(50):
            waiting = {where: rng.randrange(1, 4) for where in rng.sample(partitions, rng.randrange(1, 4))}
            while waiting:
                taken = turns.take(waiting)
                assert taken is not None
                for where in taken:
                    for _ in range(waiting.pop(where)):
                        log[where].append(taken[where])
                        taken[where] += 1
                turns.give_back(taken)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert log.keys() == set(partitions)
    assert all(sequences == list(range(len(sequences))) for sequences in log.values())


@pytest.mark.smoke
def test_sequence_server_gives_the_sequence_of_a_partition_to_one_connection_at_a_time() -> None:
    with SequenceServer("127.0.0.1") as address:
        first, second = SharedSequences(address), SharedSequences(address)
        assert first.take([A, B]) == {A: 0, B: 0}
        assert second.take([B, C]) == {C: 0}
        first.give_back({A: 4, B: 2})
        assert second.take([A, B]) == {A: 4, B: 2}
        first.close()
        second.give_back({A: 4, B: 2, C: 0})
        assert second.take([C]) == {C: 0}


@pytest.mark.smoke
def test_sink_tasks_fail_after_a_task_disconnected_while_using_a_partition() -> None:
    with SequenceServer("127.0.0.1") as address:
        first, second = SharedSequences(address), SharedSequences(address)
        first.take([A])
        first.close()
        with pytest.raises(MustAbort, match="a task of this transaction has failed"):
            second.take([A])


@pytest.mark.smoke
def test_sequence_server_refuses_a_connection_without_the_key_and_tasks_continue() -> None:
    with SequenceServer("127.0.0.1") as address:
        with pytest.raises(Exception, match="digest"):
            Client((address.host, address.port), authkey=b"another")
        assert SharedSequences(address).take([A]) == {A: 0}


@pytest.mark.smoke
def test_silent_connections_to_the_sequence_server_delay_no_task_and_close_with_the_server() -> None:
    with SequenceServer("127.0.0.1") as address:
        silent = [socket.create_connection((address.host, address.port)) for _ in range(3)]
        assert SharedSequences(address).take([A]) == {A: 0}
    for connection in silent:
        connection.settimeout(WAIT_S)
        while connection.recv(1_000):
            pass
        connection.close()
    wait_until(lambda: not [thread for thread in threading.enumerate() if thread.name.startswith("ottla-sequences")])


@pytest.mark.smoke
def test_sink_task_fails_if_its_driver_has_ended() -> None:
    with SequenceServer("127.0.0.1") as address:
        task = SharedSequences(address)
    with pytest.raises(MustAbort):
        task.take([A])
    with pytest.raises(PipelineError, match=r"cannot connect to the driver at 127\.0\.0\.1"):
        SharedSequences(ServerAddress(address.host, address.port, address.key))
