"""One run of the fuzzer: a seed, a broker, and generated inputs that depend on earlier responses."""

from __future__ import annotations

import random
from typing import Any

from tests.fuzz import encoding, refusals, settings
from tests.fuzz.encoding import Tree, requests
from tests.fuzz.exchange import Exchange
from tests.fuzz.host import CLIENTS, Host
from tests.fuzz.learning import Learner
from tests.fuzz.sockets import SocketHost
from tests.fuzz.stories import Story, Teller
from tests.fuzz.values import Maker
from tests.fuzz.vocabulary import Dice, Vocabulary

BYSTANDER_EVERY = 25
KEPT = 200
"""Maximum number of requests with novel responses that are kept, to be sent again with changes."""

Seen = tuple[Any, ...]


class Run:
    """Chooses the next input depending on earlier responses. ``host`` holds the trace of a failure."""

    def __init__(self, seed: int, host: type[Host | SocketHost] = Host) -> None:
        self.seed = seed
        self.given = settings.drawn(random.Random(seed))
        self.rng = Dice(seed)
        self.host = host(seed, self.given)
        self._words = Vocabulary(self.rng)
        self._maker = Maker(self.rng, self._words)
        self._learner = Learner(self._words)
        self._teller = Teller(self.rng, self._words, self._maker, lambda: self.host.now_ms)
        self._stories: list[tuple[Story, Any]] = []
        self._correlation_id = 0
        self._client = 0
        self.seen: set[Seen] = set()
        self._kept: list[tuple[int, int, Tree]] = []

    def go(self, inputs: int) -> None:
        """Send this number of inputs and check the broker. Raises `tests.fuzz.host.Failure`."""
        with self.host:
            self._prepare()
            while self.host.inputs < inputs:
                self._step()
                if self.host.inputs % BYSTANDER_EVERY == 0:
                    self.host.check_bystander()
            self.host.end()

    def _prepare(self) -> None:
        cast = self._words.cast(self.host.now_ms)
        topics = []
        kinds = {"compacted": ("cleanup.policy", "compact"), "stamped": ("message.timestamp.type", "LogAppendTime")}
        for name in ("t", "u", "compacted", "stamped"):
            configs = [{"name": kinds[name][0], "value": kinds[name][1]}] if name in kinds else []
            topics.append({"name": name, "num_partitions": 2, "replication_factor": 1, "assignments": [], "configs": configs})
        self._ask(19, 7, self._maker.tree(19, 7, cast, topics=topics, validate_only=False, timeout_ms=1_000))
        for kind, name in ((0, "g"), (1, "x")):
            self._ask(10, 4, self._maker.tree(10, 4, cast, key_type=kind, coordinator_keys=[name]))

    def _step(self) -> None:
        rng = self.rng
        self._client = rng.randrange(CLIENTS)
        draw = rng.random()
        if draw < 0.40:
            self._continue_story()
        elif draw < 0.68:
            self._one()
        elif draw < 0.78 and self._kept:
            self._again()
        elif draw < 0.90:
            self._corrupted()
        elif draw < 0.95:
            self._pipelined()
        elif draw < 0.97:
            self._in_pieces()
        elif draw < 0.99:
            self._answered(self.host.perform(f"wait {rng.choice((1, 10, 100, 250, 1_000, 1_000, 11_000, 70_000))}"))
        elif draw < 0.996:
            self.host.perform(f"cut {self._client}")
        else:
            self.host.perform(rng.choice(("kill", "restart")))
            self._stories.clear()

    def _continue_story(self) -> None:
        """Send the next request of a sequence that `Teller` has begun."""
        rng = self.rng
        if len(self._stories) < 3:
            self._stories.append((self._teller.begin(), None))
        at = rng.randrange(len(self._stories))
        story, answer = self._stories[at]
        try:
            key, version, tree = story.send(answer)
        except StopIteration:
            del self._stories[at]
            return
        self._stories[at] = (story, self._ask(key, version, tree))

    def _draw(self) -> tuple[int, int, Tree]:
        """Draw a request of any API, at any version, with any share of invalid values."""
        rng = self.rng
        key = rng.choice(tuple(requests()))
        if rng.random() < 0.15:
            key = 0
        version = self._teller.version(key)
        hostility = rng.choice((0.0, 0.0, 0.03, 0.1, 0.1, 0.3, 0.6))
        return key, version, self._maker.tree(key, version, self._words.cast(self.host.now_ms), hostility)

    def _one(self) -> None:
        self._ask(*self._draw())

    def _again(self) -> None:
        """Send an earlier request again, with some of its values changed."""
        rng = self.rng
        key, version, tree = rng.choice(self._kept)
        other = self._maker.tree(key, version, self._words.cast(self.host.now_ms), rng.choice((0.0, 0.1, 0.5)))
        mixed = {name: other[name] if rng.random() < 0.3 and name in other else value for name, value in tree.items()}
        self._ask(key, version, mixed)

    def _corrupted(self) -> None:
        """Send a corrupted frame, which may be unreadable."""
        rng = self.rng
        key, version, tree = self._draw()
        raw = bytearray(self._frame(key, version, tree, corruptions=rng.choice((1, 1, 1, 2, 4)))[4:])
        draw = rng.random()
        if draw < 0.1:
            raw = raw[: rng.randrange(1, len(raw))]
        elif draw < 0.2:
            raw += rng.randbytes(rng.choice((1, 3, 100)))
        elif draw < 0.3:
            for _ in range(rng.choice((1, 2, 10))):
                raw[rng.randrange(len(raw))] = rng.randrange(256)
        elif draw < 0.33:
            raw = bytearray(
                encoding.header(rng.choice((key, 999, -1, 17, 36)), rng.choice((-1, 0, 1, 50, 32_767)), 1, b"c") + raw[10:]
            )
        elif draw < 0.36:
            raw = bytearray(rng.randbytes(rng.choice((1, 4, 8, 9, 10, 40))))
        framed = encoding.framed(bytes(raw))
        if draw > 0.98:
            framed = rng.choice((-1, 0, -(2**31), 2**31 - 1, 104_857_601, len(raw) + 5)).to_bytes(4, "big", signed=True) + bytes(
                raw
            )
        self._answered(self.host.send(self._client, framed))

    def _pipelined(self) -> None:
        frames = [self._frame(*self._draw()) for _ in range(self.rng.choice((2, 3, 10)))]
        self._answered(self.host.send(self._client, b"".join(frames)))

    def _in_pieces(self) -> None:
        """Send a frame in several chunks, sometimes with requests of another client in between.

        Sometimes close the connection in the middle of a frame.
        """
        rng, at = self.rng, self._client
        frame = self._frame(*self._draw())
        cut = sorted(rng.sample(range(1, len(frame)), rng.choice((1, 2, 3))))
        for start, end in zip([0, *cut], [*cut, len(frame)], strict=True):
            self._answered(self.host.send(at, frame[start:end]))
            if rng.random() < 0.3:
                self._client = (at + 1) % CLIENTS
                self._one()
        if rng.random() < 0.2:
            self._answered(self.host.send(at, frame[: cut[0]]))
            self.host.perform(f"cut {at}")

    def _frame(self, key: int, version: int, tree: Tree, corruptions: int = 0) -> bytes:
        self._correlation_id += 1
        body = encoding.body(key, version, tree, self.rng, corruptions)
        return encoding.framed(encoding.header(key, version, self._correlation_id, b"fuzz") + body)

    def _ask(self, key: int, version: int, tree: Tree) -> Any:
        """Send a request. Returns its response, or None if no response has arrived yet."""
        sent = self._frame(key, version, tree)
        number = self._correlation_id
        answers = self.host.send(self._client, sent)
        self._answered(answers)
        mine = next((a for a in answers if a.correlation_id == number), None)
        codes = ("none",) if mine is None else tuple(sorted({code for _, code in refusals.codes(mine.response)}))
        seen = (key, codes)
        if seen not in self.seen:
            self.seen.add(seen)
            self._kept = [*self._kept[-KEPT:], (key, version, tree)]
        return None if mine is None else mine.response

    def _answered(self, answers: list[Exchange]) -> None:
        for exchange in answers:
            self._learner.learn(exchange)
