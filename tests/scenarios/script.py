"""Scenario files: their format, the choice of the expected response, and the writing of responses into them.

    IDM-03 a retry returns the offset of the first attempt   [v=9,12]
      broker: default
      topic t
      A = init
      produce A t v=$v                     -> NONE @0
      produce A t seq=0 v=$v               -> NONE @0

A scenario begins with an unindented line of rules, a title and parameters, followed by one command per line. A scenario that
belongs to no rule begins with an API instead, as in ``API Metadata: topics by their ids   [v=10-13]``. The command in
``v=12,13: produce A t`` is executed only in these cases.

The docstring of each command gives its form. ``t`` is topic t, or its partition 0 where a partition is expected; ``u/1`` is
partition 1 of u. ``t=5 u/1=0`` gives offsets of partitions. ``A`` is a client that an earlier command such as ``A = init`` has
named. Arguments in brackets may be left out; the value shown is the default, or an example where the argument has none.

The text after ``->`` is the expected response; a command without it must succeed. ``*`` accepts any response. Alternatives are
separated by `` ; ``, and selected by parameters, by the broker or by the release of Apache Kafka:

    -> v=9: INVALID_TXN_STATE ; v=12: NONE
    -> ottla: NONE ; kafka: UNKNOWN_SERVER_ERROR
    -> kafka-4.3.1: NONE ; kafka-4.4.0: INVALID_REQUEST

If the two brokers differ, a line ``differs:`` gives the reason. ``since: 4.4.0, static members`` means that older releases of
Apache Kafka do not support the scenario.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from pathlib import Path

from tools.kafka import KAFKA_VERSION, ORACLE_VERSION

FOLDER = Path(__file__).parent / "transcripts"
SEVERAL = "three"
"""Value of ``broker`` for scenarios that need three brokers and their controller."""
ARROW = " -> "
OR = " ; "
_HEAD = re.compile(r"^((?:[A-Z]{3}-\d+ )+|API \w+: )(.+?)(?:\s+\[(.+)\])?$")
_RANGE = re.compile(r"(\d+)-(\d+)")
_WHO = r"(?:ottla|kafka(?:-\d+\.\d+\.\d+)?)"
_LABEL = re.compile(rf"^((?:\w+=\S+|{_WHO})(?: (?:\w+=\S+|{_WHO}))*): (.*)$")
_TELLS_APART = re.compile(rf"(?:^|\s){_WHO}(?:: |\s)")
_ATTRIBUTE = re.compile(r"^  (broker|differs|since): (.+)$")


class ScriptError(Exception):
    """A scenario file is malformed."""


@dataclass(slots=True)
class Step:
    """A command of a scenario. ``only`` are conditions on the case and the broker; if one is false, the command is skipped."""

    line: int
    command: str
    expected: str | None
    only: str = ""


@dataclass(slots=True)
class Scenario:
    """The commands of a scenario, which shows one or more rules, or the responses of an API.

    ``cases`` are its combinations of parameters.

    ``name`` is the first rule, or the API. ``since`` is the first release of Apache Kafka that supports the scenario, and the
    feature that it needs.
    """

    file: Path
    name: str
    entries: tuple[str, ...]
    title: str
    cases: list[dict[str, str]]
    broker: str = "default"
    differs: str | None = None
    since: str | None = None
    steps: list[Step] = field(default_factory=list)

    def is_of(self, release: str) -> bool:
        """Whether this release of Apache Kafka supports the scenario."""
        return self.since is None or _parts(self.since.partition(",")[0]) <= _parts(release)


def _parts(release: str) -> list[int]:
    return [int(part) for part in release.split(".")]


def load(file: Path) -> list[Scenario]:
    """Parse the scenarios of a file. Raises `ScriptError`."""
    scenarios: list[Scenario] = []
    for number, line in enumerate(file.read_text().splitlines()):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        head = _HEAD.match(line)
        if head:
            scenarios.append(_begun(file, head))
            continue
        if not scenarios or not line.startswith("  "):
            raise ScriptError(f"{file.name}:{number + 1}: neither a head nor a command")
        attribute = _ATTRIBUTE.match(line)
        if attribute:
            setattr(scenarios[-1], attribute[1], attribute[2])
            continue
        command, arrow, expected = line.partition(ARROW)
        label = _LABEL.match(command.strip())
        only, command = (label[1], label[2]) if label else ("", command)
        scenarios[-1].steps.append(Step(number, command.strip(), expected.strip() if arrow else None, only))
    return scenarios


def _begun(file: Path, head: re.Match[str]) -> Scenario:
    name = head[1].strip().removesuffix(":")
    entries = () if name.startswith("API ") else tuple(name.split())
    return Scenario(file, entries[0] if entries else name, entries, head[2], _cases(head[3]))


def _cases(text: str | None) -> list[dict[str, str]]:
    axes = [[(name, v) for v in _values(values)] for name, _, values in (p.partition("=") for p in (text or "").split())]
    return [dict(case) for case in itertools.product(*axes)]


def _values(text: str) -> list[str]:
    """Parse a list of values: ``2,5-7`` are 2, 5, 6 and 7."""
    values = list[str]()
    for part in text.split(","):
        numbers = _RANGE.fullmatch(part)
        values += map(str, range(int(numbers[1]), int(numbers[2]) + 1)) if numbers else [part]
    return values


def case_name(case: dict[str, str]) -> str:
    return " ".join(f"{k}={v}" for k, v in case.items())


def choose(expected: str, case: dict[str, str], target: str) -> str | None:
    """Return the alternative of ``expected`` for this case and broker, or None if no alternative matches."""
    for alternative in expected.split(OR):
        label = _LABEL.match(alternative)
        if label is None:
            return alternative.strip()
        if _all_fit(label[1], case, target):
            return label[2]
    return None


def steps_of(scenario: Scenario, case: dict[str, str], target: str) -> list[Step]:
    """Return the steps that are executed in this case."""
    return [step for step in scenario.steps if _all_fit(step.only, case, target)]


def _all_fit(conditions: str, case: dict[str, str], target: str) -> bool:
    return all(_fits(condition, case, target) for condition in conditions.split())


def _fits(condition: str, case: dict[str, str], target: str) -> bool:
    name, equals, values = condition.partition("=")
    if equals:
        return case.get(name) in _values(values)
    if condition == "ottla":
        return target != "kafka"
    return target == "kafka" and condition in ("kafka", f"kafka-{ORACLE_VERSION}")


def tells_apart(expected: str) -> bool:
    """Whether the expected response depends on the broker."""
    return _TELLS_APART.search(expected) is not None


Answers = list[tuple[dict[str, str], str]]
"""Responses to one line of a file, each with the values of the variables in that line."""


def rewrite(file: Path, answers: dict[int, Answers], release: str = KAFKA_VERSION) -> None:
    """Write a broker's responses, line by line, into a file. Lines that distinguish the brokers are not changed.

    If an older release responds differently, its response is written next to the existing response.
    """
    lines = file.read_text().splitlines()
    for number, given in answers.items():
        command, arrow, expected = lines[number].partition(ARROW)
        if tells_apart(expected):
            continue
        if release != KAFKA_VERSION:
            lines[number] = _with_older(lines[number], given, release)
            continue
        merged = _merged(given)
        if not arrow and merged in ("", "NONE"):
            continue
        lines[number] = f"{command.rstrip():<48}{ARROW}{merged}".rstrip()
    file.write_text("\n".join(lines) + "\n")


def _with_older(line: str, given: Answers, release: str) -> str:
    command, arrow, expected = line.partition(ARROW)
    expected = expected.strip() if arrow else "NONE"
    parted = [(case, answer or "NONE") for case, answer in given if expected != "*"]
    parted = [(case, answer) for case, answer in parted if answer != choose(expected, case, "kafka")]
    if not parted:
        return line
    every = len({answer for _, answer in parted}) == 1 and len(parted) == len(given)
    labels = [f"kafka-{release}" + "".join(f" {n}={v}" for n, v in case.items() if not every) for case, _ in parted]
    alternatives = dict.fromkeys(f"{label}: {answer}" for label, (_, answer) in zip(labels, parted, strict=True))
    return f"{command.rstrip():<48}{ARROW}{OR.join([*alternatives, expected])}"


def _merged(given: Answers) -> str:
    """Return the responses with the fewest labels that distinguish them.

    The response that would need the most labels comes last and has none.
    """
    by_answer: dict[str, list[dict[str, str]]] = {}
    for case, answer in given:
        by_answer.setdefault(answer, []).append(case)
    if len(by_answer) == 1:
        return next(iter(by_answer))
    names = _telling(list(given[0][0]), by_answer)
    boxes = {answer: _boxes(names, cases) for answer, cases in by_answer.items()}
    last = max(boxes, key=lambda answer: (len(boxes[answer]), len(by_answer[answer])))
    labelled = [f"{_label(box)}: {answer}" for answer, answer_boxes in boxes.items() if answer != last for box in answer_boxes]
    return OR.join([*labelled, last])


Box = dict[str, frozenset[str]]


def _telling(names: list[str], by_answer: dict[str, list[dict[str, str]]]) -> list[str]:
    """Return the fewest parameters on which the response depends. Raises `ScriptError` if the parameters do not determine it."""
    for size in range(1, len(names) + 1):
        for subset in itertools.combinations(names, size):
            value_sets = [{tuple(c[n] for n in subset) for c in cases} for cases in by_answer.values()]
            if sum(map(len, value_sets)) == len(set().union(*value_sets)):
                return list(subset)
    raise ScriptError(f"one case gave several answers: {by_answer}")


def _boxes(names: list[str], cases: list[dict[str, str]]) -> list[Box]:
    """Group the cases into sets of values by parameter. Two groups are merged as long as they differ in only one parameter."""
    boxes = [dict(key) for key in dict.fromkeys(tuple((n, frozenset({c[n]})) for n in names) for c in cases)]
    for _ in range(len(boxes)):
        pair = next(
            ((one, two, n) for one, two in itertools.combinations(boxes, 2) for n in names if _differ_only(one, two, n)), None
        )
        if pair is None:
            break
        one, two, name = pair
        boxes = [b for b in boxes if b is not one and b is not two] + [one | {name: one[name] | two[name]}]
    return boxes


def _differ_only(one: Box, two: Box, name: str) -> bool:
    return all(one[n] == two[n] for n in one if n != name)


def _label(box: Box) -> str:
    return " ".join(f"{n}={_listed(sorted(values, key=_natural))}" for n, values in box.items())


def _listed(values: list[str]) -> str:
    """Format a list of values. Runs of three or more consecutive numbers are written as ranges."""
    runs: list[list[str]] = []
    for value in values:
        if runs and value.isdigit() and runs[-1][-1].isdigit() and int(value) == int(runs[-1][-1]) + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(run) for run in runs)


def _natural(text: str) -> tuple[int, str]:
    return (int(text), "") if text.lstrip("-").isdigit() else (1 << 40, text)
