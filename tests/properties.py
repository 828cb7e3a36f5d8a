"""Tests of properties with drawn examples: some of the examples by default, all of them in a slow test."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis.strategies import SearchStrategy

Test = Callable[..., None]


def drawn(*strategies: SearchStrategy[Any], few: int, many: int) -> Callable[[Test], Test]:
    """Return a decorator like `hypothesis.given`: the last parameters of the test are drawn, ``few`` times or (slow) ``many`` times."""

    def decorate(test: Test) -> Test:
        def repeated(examples: int, **fixtures: object) -> None:
            settings(deadline=None, max_examples=examples)(given(*strategies)(test))(**fixtures)

        signature = inspect.signature(test)
        fixtures = list(signature.parameters.values())[: -len(strategies)]
        examples = inspect.Parameter("examples", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation="int")
        repeated.__name__, repeated.__qualname__, repeated.__doc__ = test.__name__, test.__qualname__, test.__doc__
        repeated.__module__ = test.__module__
        repeated.__signature__ = signature.replace(parameters=[examples, *fixtures])  # type: ignore[attr-defined] # pytest reads it
        counts = [few, pytest.param(many, marks=pytest.mark.slow)]
        marked: Test = pytest.mark.parametrize("examples", counts)(repeated)
        return marked

    return decorate
