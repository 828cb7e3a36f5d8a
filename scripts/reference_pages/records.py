"""The page of the records that a policy gets and makes: each field with its type and unit, and the comment beside it in the code."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Final, get_origin

from scripts.reference_pages.policies import code, table

from cosched_plugin import api
from cosched_plugin.protocol import fields as wire
from cosched_plugin.protocol.messages import Belief

UNITS: Final = {"us": "µs", "mb": "MiB", "mbs": "MB/s", "ppm": "millionths", "s": "s"}
# Sections of the page, and their records; what the api exports besides comes last.
SECTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "Jobs": ("JobSpec", "Running", "Ended", "Rotation", "Turn", "Run", "Occupancy"),
    "The machine": ("Machine", "NodeClass", "Belief", "Queue"),
    "Decisions": (
        "StartJob", "StartTogether", "ReviseJob", "SuspendJob", "ResumeJob", "SetRotation", "ChangeSlot", "SetNote", "WakeAt",
        "RejectJob",
    ),
    "What passes between parts": (),
}  # fmt: skip

# What annotations say of the wire beside the type is no matter of a policy's.
_TYPES: Final[Mapping[str, str]] = {
    **{name: item.__origin__.__name__ for name, item in vars(wire).items() if get_origin(item) is Annotated},
    "Runs": "tuple[Run, ...]",
    "Shares": "tuple[tuple[int, int], ...]",
}


class _Plain(ast.NodeTransformer):
    """Leaves the types of annotations alone."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.parse(_TYPES.get(node.id, node.id), mode="eval").body

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return self.visit_Name(ast.Name(node.attr))  # without its module

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if isinstance(node.value, ast.Name) and node.value.id == "Annotated" and isinstance(node.slice, ast.Tuple):
            return self.visit(node.slice.elts[0])  # type: ignore[no-any-return]  # what the class returns
        return self.generic_visit(node)


def records() -> dict[str, type]:
    """Return the records by name: the named tuples of the api, the belief, and two objects with attributes."""
    found = {
        name: kind for name, kind in sorted(vars(api).items()) if isinstance(kind, type) and hasattr(kind, "_fields")
    }
    return {**found, "Belief": Belief, "Machine": api.Machine, "Queue": api.Queue}


def fields_of(kind: type) -> list[tuple[str, str, str]]:
    """Return (name, type, meaning) of each field: annotated ones, or attributes set by the constructor."""
    lines, body = _source(kind)
    found = []
    for item in body:
        match item:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=hint):
                plain = ast.unparse(_Plain().visit(hint)).strip("'")
                found.append((name, plain, _comment(lines, item)))
            case ast.FunctionDef(name="__init__") if not hasattr(kind, "_fields"):
                found += _attributes(kind, lines, item)
    return [(name, hint, meaning) for name, hint, meaning in found if not name.startswith("_")]


def _attributes(kind: type, lines: list[str], init: ast.FunctionDef) -> Iterator[tuple[str, str, str]]:
    for item in init.body:
        match item:
            case ast.AnnAssign(target=ast.Attribute(attr=name), annotation=hint):
                yield name, ast.unparse(hint), _comment(lines, item)
            case ast.Assign(targets=[ast.Attribute(attr=name)]) if name in kind.__slots__:  # type: ignore[attr-defined]
                yield name, "", _comment(lines, item)


@cache
def _tree(file: str) -> tuple[list[str], ast.Module]:
    text = Path(file).read_text(encoding="utf-8")
    return text.splitlines(), ast.parse(text)


def _source(kind: type) -> tuple[list[str], list[ast.stmt]]:
    lines, tree = _tree(str(inspect.getsourcefile(kind)))
    body = next(item.body for item in tree.body if isinstance(item, ast.ClassDef) and item.name == kind.__name__)
    return lines, body


def _comment(lines: list[str], item: ast.stmt) -> str:
    """Return the comment behind a field, or those above it."""
    assert item.end_lineno is not None
    behind = lines[item.end_lineno - 1].partition("  # ")[2].split("  # ")
    words = [part for part in behind if part and not part.startswith("type: ")]
    if words:
        return "; ".join(words)
    above: list[str] = []
    line = item.lineno - 2
    while lines[line].strip().startswith("# "):
        above.insert(0, lines[line].strip().removeprefix("# "))
        line -= 1
    return " ".join(above)


def records_page() -> Iterator[str]:
    """Yield every record with its fields."""
    yield "# The records that a policy gets and makes"
    yield ""
    yield (
        "All of them are immutable named tuples, but `Machine` and `Queue`, which are objects that a policy only reads. "
        "[Writing a policy](../writing-a-policy.md) has the members of the `View`, which leads to them. "
    )
    yield ""
    yield from table(
        ("ending of a name", "unit"),
        (
            (
                "`_us`",
                "microseconds, a whole number: an instant on the manager's clock, or a span; `SECOND_US` is 1,000,000",
            ),
            ("`_mb`", "MiB (1,048,576 bytes), a whole number"),
            ("`_mbs`", "MB/s, a whole number"),
            ("`_ppm`", "millionths, a whole number: a slowdown of 1,200,000 is 1.2 times as long"),
        ),
    )
    yield from table(
        ("type", "is"),
        (
            ("`NodeSet`", "an `int`, a set of nodes: bit *n* is node *n*; numbers of nodes begin with 0"),
            ("`ThreadMask`", "an `int`, hardware threads of one node: bit *i* is thread *i*"),
            ("`Layers`", "a set of threads of the machine: a tuple of `NodeSet`, one for each thread number"),
            ("`DemandTuple`", "what one process asks of its node: (memory bandwidth, network, disk), each in MB/s"),
            (
                "`UsageTuple`",
                'how a job uses its nodes: (`"cpu"`, `"network"` or `"disk"`, which bounds it most; the shares of its run time '
                "on each; its memory as a share of a node's), in millionths",
            ),
            (
                "`SelfSlowdown`",
                "how a job slows itself down, in millionths: with a process on each CPU of its nodes against one a node; "
                "on top of that, with processes on all cores of a CPU against one",
            ),
            ("`NoteValue`", "the value of a note: `bool`, `int`, `float`, `str`, `None`, or a tuple of these"),
        ),
    )
    kinds = records()
    listed = {name for names in SECTIONS.values() for name in names}
    rest = tuple(name for name in kinds if name not in listed)
    for section, names in SECTIONS.items():
        yield from (f"## {section}", "")
        for name in names or rest:
            yield from _record(name, kinds[name])


def _record(name: str, kind: type) -> Iterator[str]:
    told = (inspect.getdoc(kind) or "").partition("\n\n")[0].replace("\n", " ").replace("``", "`")
    yield from (f"### {name}", "", told, "")
    rows = (
        (code(field), code(hint), UNITS.get(field.rpartition("_")[2], "-"), meaning)
        for field, hint, meaning in fields_of(kind)
    )
    yield from table((f"field of `{name}`", "type", "unit", "meaning"), rows)


def view_page() -> Iterator[str]:
    """Yield the members of a view, with their docstrings."""
    yield "# What a view shows"
    yield ""
    yield "Every member of `View`, the argument of `decide`. [Writing a policy](../writing-a-policy.md) explains how to use it."
    yield ""
    members: dict[str, object] = {}
    for kind in reversed([kind for kind in api.View.__mro__ if kind is not object]):
        members |= {name: member for name, member in vars(kind).items() if not name.startswith("_")}
    attributes = {name: meaning for name, _, meaning in fields_of(api.View)}
    rows = ((_signature(name, members[name]), _told(members[name]) or attributes[name]) for name in sorted(members))
    yield from table(("member", "is"), rows)


def _signature(name: str, member: object) -> str:
    if not inspect.isfunction(member):
        return code(name)
    words = [parameter.name for parameter in inspect.signature(member).parameters.values()]
    return code(f"{name}({', '.join(words[1:])})")


def _told(member: object) -> str:
    text = " ".join((inspect.getdoc(member) or "").split()).replace("``", "`")
    return text.removeprefix("Return ").replace("Tell whether", "whether")


PAGES: Final[Mapping[str, Callable[[], Iterable[str]]]] = {"records.md": records_page, "view.md": view_page}
