"""Measures: functions of somebody else that add figures to those of a run. What they return is checked, and made plain."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from cosched_emulator.api.run import Run
from cosched_emulator.errors import ConfigurationError
from cosched_emulator.studies.plan.experiment import HARM, ORIGIN, PLACES
from cosched_plugin.common.errors import UsageError

Measure = Callable[[Run], Mapping[str, Any]]
_RESERVED: Final = frozenset((*PLACES, *ORIGIN))
_MOST: Final = 500  # SQLite has at most 2,000 columns
_LARGEST: Final = 2**63


def load_measure(name: str) -> Measure:
    """Return the function of a measure, ``module:function``: it gets a `Run`, and returns figures by name.

    A function with a true attribute ``needs_trace`` gets a run with its decision trace. Raises ConfigurationError.
    """
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (Exception, SystemExit) as error:  # an imported module can raise anything
        text = " ".join(f"{name}: {type(error).__name__}: {error}".split())
        raise ConfigurationError("measures", "functions, each as MODULE:FUNCTION", text) from error
    if not callable(found):
        raise ConfigurationError("measures", "functions, each as MODULE:FUNCTION", name)
    return found  # type: ignore[no-any-return]  # `add_measure` checks what it returns


def add_measure(figures: dict[str, Any], name: str, measure: Measure, run: Run) -> None:
    """Add what a measure returns to the figures of a run; raises UsageError for what the table cannot hold."""
    found: Any = measure(run)
    if not isinstance(found, Mapping) or len(found) > _MOST:
        got = f"{len(found):,}" if isinstance(found, Mapping) else type(found).__name__
        raise UsageError(f"measure {name}: expected a table of at most {_MOST} figures by name, got {got}")
    taken = {key.casefold() for key in figures} | _RESERVED  # SQLite does not tell upper from lower case
    for key, value in found.items():
        if not isinstance(key, str) or not key or not key.isprintable():
            raise UsageError(f"measure {name}: expected a text of one line as the name of a figure, got {key!r}")
        if key.casefold() in taken or key.casefold().startswith(HARM):
            raise UsageError(f"measure {name}: expected a name of its own, got {key!r}, which exists")
        taken.add(key.casefold())
        try:
            figures[key] = _plain(value)
        except (TypeError, ValueError, RecursionError) as error:
            raise UsageError(f"measure {name}: {key}: {error}") from error


def _plain(value: Any) -> Any:
    """Return a value of JSON: numbers of numpy are plain ones, and None stands for a number that does not exist."""
    if type(value).__module__ == "numpy":
        value = value.tolist()
    if isinstance(value, str):
        value.encode()  # half a character is no text
        return str(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        if not -_LARGEST <= value < _LARGEST:
            raise ValueError("expected a whole number of at most 64 bits")
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {_plain(str(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [_plain(item) for item in value]
    raise TypeError(f"expected a number, a text, or a list or table of them, got {type(value).__name__}")
