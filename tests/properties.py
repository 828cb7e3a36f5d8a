"""Tests of properties with drawn examples: some of the examples by default, all of them in a slow test."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis.strategies import SearchStrategy

Test = Callable[..., None]


def drawn(
    *strategies: SearchStrategy[Any], few: int, many: int, **named: SearchStrategy[Any]
) -> Callable[[Test], Test]:
    """Return a decorator like `hypothesis.given` that draws ``few`` examples, and in a slow test ``many``.

    ``strategies`` are those of the test's last parameters; ``named`` are those of parameters by name.
    """

    def decorate(test: Test) -> Test:
        def repeated(examples: int, **fixtures: object) -> None:
            settings(deadline=None, max_examples=examples)(given(*strategies, **named)(test))(**fixtures)

        signature = inspect.signature(test)
        parameters = list(signature.parameters.values())
        fixtures = [each for each in parameters[: len(parameters) - len(strategies)] if each.name not in named]
        examples = inspect.Parameter("examples", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation="int")
        repeated.__name__, repeated.__qualname__, repeated.__doc__ = test.__name__, test.__qualname__, test.__doc__
        repeated.__module__ = test.__module__
        repeated.__signature__ = signature.replace(parameters=[examples, *fixtures])  # type: ignore[attr-defined] # pytest reads it
        counts = [few, pytest.param(many, marks=pytest.mark.slow)]
        marked: Test = pytest.mark.parametrize("examples", counts)(repeated)
        return marked

    return decorate
