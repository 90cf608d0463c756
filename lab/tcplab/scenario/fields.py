"""Fields of a scenario's tables: a dataclass field carries the check of its value; names, defaults
and limits are written once."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tcplab.scenario.errors import Place, Problem

Check = Callable[[Any], Any]
"""Returns the value to keep; raises ValueError with the expected form."""

T = TypeVar("T")


def number(
    default: float | None = None,
    *,
    above: float | None = None,
    least: float | None = None,
    most: float | None = None,
    below: float | None = None,
    whole: bool = False,
) -> Any:
    """A number within limits, `whole` for counts."""

    def check(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"a number is expected, not {value!r}")
        if whole and not isinstance(value, int):
            raise ValueError(f"a whole number is expected, not {value!r}")
        if above is not None and not value > above:
            raise ValueError(f"{value:g} is impossible: it must be above {above:g}")
        if least is not None and not value >= least:
            raise ValueError(f"{value:g} is impossible: it must be at least {least:g}")
        if most is not None and not value <= most:
            raise ValueError(f"{value:g} is impossible: it must be at most {most:g}")
        if below is not None and not value < below:
            raise ValueError(f"{value:g} is impossible: it must be below {below:g}")
        return value if whole else float(value)

    return dataclasses.field(default=default, metadata={"check": check})


def text(default: str | None = None, *, required: bool = False) -> Any:
    def check(value: Any) -> str:
        if not isinstance(value, str) or not value:
            raise ValueError(f"a text is expected, not {value!r}")
        return value

    return dataclasses.field(default=default, metadata={"check": check, "required": required})


def flag(default: bool = False) -> Any:
    def check(value: Any) -> bool:
        if not isinstance(value, bool):
            raise ValueError(f"true or false is expected, not {value!r}")
        return value

    return dataclasses.field(default=default, metadata={"check": check})


def choice(default: str, *names: str) -> Any:
    def check(value: Any) -> str:
        if value not in names:
            raise ValueError(f"{value!r} is not known{suggestion(str(value), names)}")
        return str(value)

    return dataclasses.field(default=default, metadata={"check": check})


def checked(default: Any, check: Check) -> Any:
    """A field with a check of its own."""
    return dataclasses.field(default=default, metadata={"check": check})


def suggestion(wrong: str, names: Mapping[str, Any] | tuple[str, ...] | list[str]) -> str:
    """The most similar word, or all words."""
    meant = nearest(wrong, names)
    return f"; did you mean {meant!r}?" if meant else "; there are: " + ", ".join(names)


def nearest(wrong: str, names: Mapping[str, Any] | tuple[str, ...] | list[str]) -> str | None:
    """The probable key: a name without its unit, or a similar one."""
    whole = [name for name in names if name.startswith(f"{wrong}_")]
    return next(iter(whole or difflib.get_close_matches(wrong, list(names), 1, 0.6)), None)


def unknown_key(place: Place, key: str, names: Mapping[str, Any] | tuple[str, ...]) -> Problem:
    """A key unknown to a table."""
    meant = nearest(key, names)
    spoils = ((*place, meant),) if meant else ()
    return Problem((*place, key), f"unknown key {key!r}{suggestion(key, names)}", spoils)


def read(
    cls: type[T], raw: Any, place: Place, problems: list[Problem], beside: tuple[str, ...] = ()
) -> T:
    """An instance of the dataclass `cls` from a table; wrong keys get their defaults.

    `beside`: keys for other readers of the same table.
    """
    if not isinstance(raw, dict):
        problems.append(Problem(place, f"{place[0]}: a table is expected"))
        raw = {}
    known = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    wrong_keys = []
    for key, value in raw.items():
        if key not in known:
            if key not in beside:
                wrong_keys.append(unknown_key(place, key, (*known, *beside)))
            continue
        try:
            values[key] = known[key].metadata["check"](value)
        except ValueError as wrong:
            problems.append(Problem((*place, key), f"{key}: {wrong}"))
    problems += wrong_keys
    spoiled = {spoilt for wrong in wrong_keys for spoilt in wrong.spoils}
    for name, field in known.items():
        missing = field.metadata.get("required") and name not in raw
        if missing and (*place, name) not in spoiled:
            problems.append(Problem(place, f"{name} is missing", ((*place, name),)))
    return cls(**values)
