"""Limits on the sizes of files, folders and functions."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.processes import ROOT

CODE = ("hwmodel", "plugin", "emulator", "scripts")
LINES = 600  # of a file
TEST_LINES = 600
SMALL_LINES = 60  # a file with fewer is small
MOST_SMALL = 18  # files of all packages that are, and do not say why
FUNCTION_LINES = 50
ENTRIES = 25  # modules and sub-packages of a folder
REASON = "# Over 50 lines: "
REASON_SMALL = "# Under 60 lines: "


def python_files(*folders: str) -> Iterator[tuple[str, Path]]:
    """Yield the Python files below some folders, each with its path in the project."""
    for folder in folders:
        for file in sorted((ROOT / folder).rglob("*.py")):
            yield file.relative_to(ROOT).as_posix(), file


def lines_of(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines()


def long_functions(text: str) -> list[str]:
    """Return the names of functions that are too long and do not say why just above themselves and their decorators."""
    lines = text.splitlines()
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            above = lines[first - 2].strip() if first > 1 else ""
            if node.end_lineno - node.lineno + 1 > FUNCTION_LINES and not above.startswith(REASON):
                found.append(node.name)
    return found


def test_no_file_is_too_long() -> None:
    large = {name for name, file in python_files(*CODE) if len(lines_of(file)) > LINES}
    large |= {name for name, file in python_files("tests") if len(lines_of(file)) > TEST_LINES}
    assert sorted(large) == []


def test_few_files_are_small() -> None:
    """A reader follows one idea in one file. What is small is an entry point, a protocol that others implement, or a shared table."""
    modules = [
        (name, file) for name, file in python_files("hwmodel", "plugin", "emulator") if file.name != "__init__.py"
    ]
    small = [
        name
        for name, file in modules
        if len(lines_of(file)) < SMALL_LINES and REASON_SMALL not in file.read_text(encoding="utf-8")
    ]
    assert len(small) <= MOST_SMALL, small


def test_no_folder_has_too_many_entries() -> None:
    entries: Counter[str] = Counter()
    for name, file in python_files(*CODE, "tests"):
        if not file.name.startswith("__"):
            entries[str(Path(name).parent)] += 1
    for folder in {Path(name).parent for name, _ in python_files(*CODE, "tests")}:
        entries[str(folder.parent)] += 1  # a sub-package of it, or a folder of tests
    assert sorted(folder for folder, count in entries.items() if count > ENTRIES) == []


def test_no_function_is_too_long_without_a_reason() -> None:
    long = {
        f"{name}:{function}"
        for name, file in python_files(*CODE)
        for function in long_functions(file.read_text(encoding="utf-8"))
    }
    assert sorted(long) == []


def test_a_reason_above_the_decorators_counts() -> None:
    body = "    x = 1\n" * FUNCTION_LINES
    assert long_functions(f"def f():\n{body}") == ["f"]
    assert long_functions(f"{REASON}a table\n@cache\ndef f():\n{body}") == []
    assert long_functions(f"class C:\n    {REASON}a table\n    def f():\n{body.replace('    ', '        ')}") == []
    assert long_functions(f"def f():\n{body.replace('    x = 1', '', 1)}") == ["f"]
    assert long_functions("def f():\n" + "    x = 1\n" * (FUNCTION_LINES - 1)) == []


PRINTERS = {
    "hwmodel/cosched_terminal/console.py",  # `say`, and the log
    "hwmodel/cosched_hwmodel/cli/measuring/numpy_kernels.py",  # a child process that answers its parent
}


def test_programs_print_by_one_function() -> None:
    """It makes names of others printable; what is printed past it may drive the terminal."""
    found = set()
    for name, file in python_files("hwmodel", "plugin", "emulator"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("print", "click.echo", "click.secho"):
                found.add(name)
    assert found == PRINTERS


def test_every_package_has_a_docstring() -> None:
    silent = [
        name
        for name, file in python_files("hwmodel", "plugin", "emulator", "scripts")
        if file.name == "__init__.py" and ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) is None
    ]
    assert silent == []
    folders = {file.parent for _, file in python_files("hwmodel", "plugin", "emulator")}
    packages = {folder for folder in folders if folder.name not in ("hwmodel", "plugin", "emulator")}
    assert sorted(str(folder) for folder in packages if not (folder / "__init__.py").exists()) == []


# Types that a policy may test for: values of notes, and its own tables.
PLAIN_TYPES = {"int", "float", "str", "bool", "tuple", "dict", "QueueTable"}


def test_algorithms_do_not_test_types_or_names_of_parts() -> None:
    """No test on the type or the name of a part; a cache may compare the types of two objects of its own."""
    tests: list[str] = []
    looked_at = 0
    for name, file in python_files("plugin"):
        if "/policies/" not in name or "/composition/" in name:
            continue
        looked_at += 1
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Name(id="isinstance"), args=[_, kind]):
                    kinds = {each.id for each in ast.walk(kind) if isinstance(each, ast.Name)}
                    if not kinds <= PLAIN_TYPES:
                        tests.append(f"{name}:{node.lineno}: {ast.unparse(node)}")
                case (
                    ast.Compare(left=ast.Attribute(attr="name")) | ast.Compare(comparators=[ast.Attribute(attr="name")])
                ):
                    tests.append(f"{name}:{node.lineno}: {ast.unparse(node)}")
                case ast.Compare(left=ast.Call(func=ast.Name(id="type")), comparators=[ast.Name(id=kind)]):
                    if kind not in PLAIN_TYPES | {"kind"}:
                        tests.append(f"{name}:{node.lineno}: {ast.unparse(node)}")
    assert looked_at > 30
    assert tests == []
