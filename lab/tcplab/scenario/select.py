"""A part of a campaign: the cells with some of a sweep's labels, or some repetitions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tcplab.scenario.errors import ScenarioError
from tcplab.scenario.load import Scenario

REPETITION = "repetition"
FORMER_AXES = {"way": "variant"}
"""Former names of axes of our scenarios, understood until 0.2."""


def selected(scenario: Scenario, only: Sequence[str]) -> Scenario:
    """The scenario with the cells matching every word `AXIS=LABEL[,LABEL]…`.  The axis `repetition`
    is there always; its labels are 0 and on.

    Raises ScenarioError for an axis or a label unknown to the scenario.
    """
    for word in only:
        axis, _, text = word.partition("=")
        if axis not in scenario.axes:
            axis = FORMER_AXES.get(axis, axis)
        if axis == REPETITION:
            scenario = _repetitions(scenario, word, text.split(","))
            continue
        if axis not in scenario.axes:
            there = ", ".join(scenario.axes) or "none"
            raise ScenarioError([f"--only {word}: there is no axis {axis!r}; there are {there}"])
        known = {str(label): label for label in scenario.axes[axis]}
        wanted = _labels(text, known)
        if missing := [label for label in wanted if label not in known]:
            there = ", ".join(known)
            what = f"{axis} is never {missing[0]!r}; it is {there}"
            raise ScenarioError([f"--only {word}: {what}"])
        kept = [label for name, label in known.items() if name in wanted]
        points = tuple(p for p in scenario.points if str(p.labels[axis]) in wanted)
        scenario = replace(scenario, axes={**scenario.axes, axis: kept}, points=points)
    return scenario


def _labels(text: str, known: Iterable[str]) -> list[str]:
    """The labels in a list with commas.  A label may have commas itself: the longest one wins."""
    found = []
    longest_first = sorted(known, key=len, reverse=True)
    while text:
        fits = (label for label in longest_first if f"{text},".startswith(f"{label},"))
        label = next(fits, text.partition(",")[0])
        found.append(label)
        text = text[len(label) + 1 :]
    return found or [""]


def _repetitions(scenario: Scenario, word: str, wanted: Sequence[str]) -> Scenario:
    known = {str(number): number for number in range(scenario.top.repetitions)}
    if missing := [text for text in wanted if text not in known]:
        there = f"it is {', '.join(known)}; the scenario's `repetitions` says how many"
        what = f"there is no repetition {missing[0]!r}; {there}"
        raise ScenarioError([f"--only {word}: {what}"])
    return replace(scenario, only_repetitions=tuple(known[text] for text in wanted))
