"""A frozen class is what a frozen dataclass would be."""

from __future__ import annotations

import pickle
from copy import deepcopy
from dataclasses import FrozenInstanceError, asdict, dataclass, field, fields, is_dataclass, replace

import pytest

from cosched_hwmodel.quick_classes import frozen


@frozen
class Quick:
    """A class."""

    a: int
    b: dict[str, int] = field(default_factory=dict, compare=False)
    c: str = field(default="x", repr=False)


@dataclass(frozen=True)
class Slow:
    """The same."""

    a: int
    b: dict[str, int] = field(default_factory=dict, compare=False)
    c: str = field(default="x", repr=False)


def test_a_frozen_class_behaves_as_a_frozen_dataclass() -> None:
    """Else settings would compare, copy, travel to workers or print otherwise."""
    quick, slow = Quick(1, c="y"), Slow(1, c="y")
    assert is_dataclass(quick)
    assert [item.name for item in fields(quick)] == [item.name for item in fields(slow)]
    assert repr(quick) == repr(slow).replace("Slow", "Quick")
    assert hash(quick) == hash(slow)
    assert asdict(quick) == asdict(slow)
    assert quick == Quick(1, {"k": 2}, "y") == pickle.loads(pickle.dumps(quick)) == deepcopy(quick)
    assert quick != Quick(1)
    assert quick != object()
    assert replace(quick, a=2) == Quick(2, {}, "y")
    assert Quick(1).b is not Quick(1).b


@pytest.mark.parametrize("arguments", [((), {}), ((1, {}, "x", 2), {}), ((1,), {"a": 2}), ((1,), {"d": 2})])
def test_wrong_arguments_are_refused(arguments: tuple[tuple[object, ...], dict[str, object]]) -> None:
    args, given = arguments
    for kind in (Quick, Slow):
        with pytest.raises(TypeError):
            kind(*args, **given)  # type: ignore[arg-type]


def test_a_frozen_class_does_not_change() -> None:
    quick = Quick(1)
    with pytest.raises(FrozenInstanceError):
        quick.a = 2  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del quick.a
