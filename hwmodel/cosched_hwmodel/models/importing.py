"""Imports what ``MODULE:CLASS`` names, such as a policy, a part or a contention model of others."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType

from cosched_hwmodel.errors import RAISED_OUTSIDE, HardwareModelError, suggestion

FORM = "MODULE:CLASS, such as least_work:LeastWork for the class LeastWork in least_work.py"


class NamedImportError(HardwareModelError):
    """What ``MODULE:CLASS`` names cannot be imported; the text is one line, without the name."""


def installed(group: str) -> dict[str, str]:
    """Return what packages have installed in a group of entry points: ``MODULE:CLASS`` -> name."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - slow to load, and rarely needed

    return {f"{point.module}:{point.attr}": point.name for point in entry_points(group=group)}


def import_named(path: str) -> object:
    """Return what ``MODULE:CLASS`` names. Raises NamedImportError, which says what is missing or what failed, and where."""
    module, _, attribute = path.partition(":")
    _check_form(module, attribute)
    found: object = _import(module)
    for name in attribute.split("."):
        if not hasattr(found, name):
            raise NamedImportError(_no_such_name(found, module, name))
        found = getattr(found, name)
    return found


def _check_form(module: str, attribute: str) -> None:
    stem = Path(module).name.removesuffix(".py")
    if "/" in module or module.endswith(".py"):
        folder = Path(module).parent
        raise NamedImportError(
            f"expected the name of a module, not a file: {stem}:{attribute or 'CLASS'}, with PYTHONPATH={folder}"
        )
    if not all([*module.split("."), *attribute.split(".")]):
        raise NamedImportError(f"expected {FORM}")


def _import(module: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module}.".startswith(f"{error.name}."):
            raise NamedImportError(_no_such_module(error.name, module)) from error
        raise NamedImportError(_failure(module, error)) from error
    except RAISED_OUTSIDE as error:
        raise NamedImportError(_failure(module, error)) from error


def _no_such_module(module: str, wanted: str) -> str:
    file = f"{module.rpartition('.')[2]}.py"
    if "." not in module and (Path(file).is_file() or Path(module, "__init__.py").is_file()):
        return f"no module {module!r} on Python's path; it is in the current folder: set PYTHONPATH=."
    package = module.rpartition(".")[0]
    if package in sys.modules:
        return f"no module {module!r}: the package {package!r} ({_file_of(sys.modules[package])}) has no {file}"
    target = file if module == wanted else f"the package {module}"
    return f"no module {module!r} on Python's path: set PYTHONPATH to the folder that holds {target}; expected {FORM}"


def _failure(module: str, error: BaseException) -> str:
    """Return where the import of a module failed, and the original error."""
    places = list(_places(error))
    where = " at {}, line {}".format(*places[-1]) if places else ""
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"the import of module {module!r} fails{where}: {type(error).__name__}: {text}"


def _places(error: BaseException) -> Iterator[tuple[str, int]]:
    """Yield (file, line) of the calls that led to the error, outermost first, without those of Python's import system."""
    trace = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith("<frozen ") and file not in (__file__, importlib.__file__):
            yield file, trace.tb_lineno
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and error.filename is not None and error.lineno is not None:
        yield error.filename, error.lineno


def _no_such_name(found: object, module: str, name: str) -> str:
    if not isinstance(found, ModuleType):
        return f"{found!r} has no {name!r}"
    classes = [
        key for key, value in vars(found).items() if isinstance(value, type) and value.__module__ == found.__name__
    ]
    hint = f"; {suggestion(name, classes)}" if classes else "; it defines no class"
    return f"module {module!r} ({_file_of(found)}) has no {name!r}{hint}"


def _file_of(module: ModuleType) -> str:
    return getattr(module, "__file__", None) or "without a file"


# The code that a run depends on: the modules that its settings name, and their sources.


def modules_in(value: object) -> frozenset[str]:
    """Return the modules of all texts MODULE:NAME in a value."""
    return frozenset(_modules(value))


def _modules(value: object) -> Iterator[str]:
    if isinstance(value, str):
        module, separator, name = value.partition(":")
        if separator and all(part.isidentifier() for part in (*module.split("."), *name.split("."))):
            yield module
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _modules(item)
    elif isinstance(value, Sequence):
        for item in value:
            yield from _modules(item)


def source_digests(modules: Iterable[str]) -> dict[str, str]:
    """Return the digests of the sources that this process has, or would import."""
    return {name: _source_digest(name) for name in sorted(modules)}


@cache
def _source_digest(module: str) -> str:
    """Return the digest of a module's source, empty for what is not a file."""
    from importlib.util import find_spec  # noqa: PLC0415 - for runs that are recorded, and studies

    try:
        spec = find_spec(module)
    except (ImportError, ValueError):
        return ""  # the choice of the policy reports it
    file = None if spec is None else spec.origin
    return file_digest(file) if file is not None and Path(file).is_file() else ""


def file_digest(file: str) -> str:
    """Return the digest of a file's content. Raises OSError."""
    import hashlib  # noqa: PLC0415 - it loads OpenSSL, which few runs need

    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
