"""Classes that are made quickly: a program makes dozens of them before its work begins.

`dataclasses` compiles each method of each class: for thirty classes that was an eighth of the instructions of a short run's start.
"""

from __future__ import annotations

from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields
from typing import Any, Final, NoReturn, TypeVar, dataclass_transform

_Class = TypeVar("_Class", bound=type)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(kind: _Class) -> _Class:
    """Return a class as a frozen dataclass whose methods, but for those of its own, are those of all such classes.

    To make an object takes some microseconds longer: for what a run has few of, such as its settings.
    """
    dataclass(init=False, repr=False, eq=False)(kind)
    for name, method in _METHODS.items():
        if name not in vars(kind):
            setattr(kind, name, method)
    return kind


def _init(self: Any, /, *args: Any, **given: Any) -> None:
    own, values = vars(self), iter(args)
    for item in fields(self):
        name = item.name
        if item.init and (value := next(values, MISSING)) is not MISSING:
            if name in given:
                raise TypeError(f"{type(self).__name__}() got two values of {name!r}")
            own[name] = value
        elif item.init and name in given:
            own[name] = given.pop(name)
        elif item.default_factory is not MISSING:
            own[name] = item.default_factory()
        elif item.default is not MISSING:
            own[name] = item.default
        elif item.init:
            raise TypeError(f"{type(self).__name__}() lacks {name!r}")
    if given or next(values, MISSING) is not MISSING:
        raise TypeError(f"{type(self).__name__}() got more values than fields, or names of none: {', '.join(given)}")
    if hasattr(self, "__post_init__"):
        self.__post_init__()


def _compared(own: Any) -> tuple[Any, ...]:
    return tuple([getattr(own, item.name) for item in fields(own) if item.compare])


def _eq(self: Any, other: object) -> bool:
    return _compared(self) == _compared(other) if other.__class__ is self.__class__ else NotImplemented


def _hash(self: Any) -> int:
    return hash(_compared(self))


def _repr(self: Any) -> str:
    shown = [f"{item.name}={getattr(self, item.name)!r}" for item in fields(self) if item.repr]
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _setattr(_self: Any, name: str, _value: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _delattr(_self: Any, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


_METHODS: Final = {
    "__init__": _init,
    "__repr__": _repr,
    "__eq__": _eq,
    "__hash__": _hash,
    "__setattr__": _setattr,
    "__delattr__": _delattr,
}
