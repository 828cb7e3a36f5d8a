"""MODULE:CLASS: what is missing, or what failed inside the module, and where."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cosched_hwmodel.models.importing import NamedImportError, _source_digest, import_named, modules_in, source_digests

FILES = {
    "own_fine": "class Greedy:\n    class Inner: pass\nfrom pathlib import Path\nPatient = Greedy\n",
    "own_missing": "x = 1\nimport no_such_package\n",
    "own_syntax": "x = 1\n\ndef f(:\n",
    "own_broken": "def f():\n    return {}['a']\n\nf()\n",
    "own_exit": "raise SystemExit(3)\n",
    "own_outer": "import own_broken\n",
    "own_plain": "x = 1\n",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        monkeypatch.delitem(sys.modules, name, raising=False)
        (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "own_near.py").write_text("class Near: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


def refusal(path: str) -> str:
    with pytest.raises(NamedImportError) as raised:
        import_named(path)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_classes_are_found(folder: Path) -> None:
    assert getattr(import_named("own_fine:Greedy"), "__name__", "") == "Greedy"
    assert getattr(import_named("own_fine:Greedy.Inner"), "__name__", "") == "Inner"


@pytest.mark.parametrize("path", ["own_fine", "own_fine:", ":Greedy", "own_fine:Greedy.", ".own_fine:Greedy"])
def test_the_form_is_told(path: str, folder: Path) -> None:
    assert refusal(path).startswith("expected MODULE:CLASS, such as least_work:LeastWork")


def test_a_file_is_no_module(folder: Path) -> None:
    assert refusal("sub/own_fine.py:Greedy") == (
        "expected the name of a module, not a file: own_fine:Greedy, with PYTHONPATH=sub"
    )


def test_a_module_that_is_not_on_the_path(folder: Path) -> None:
    assert refusal("own_near:Near") == (
        "no module 'own_near' on Python's path; it is in the current folder: set PYTHONPATH=."
    )
    assert "set PYTHONPATH to the folder that holds own_far.py; expected MODULE:CLASS" in refusal("own_far:Far")
    assert "set PYTHONPATH to the folder that holds the package own_site" in refusal("own_site.far:Far")
    assert "the package 'json' (" in refusal("json.greedy:Greedy")


@pytest.mark.parametrize(
    ("module", "place", "error"),
    [
        ("own_missing", "own_missing.py, line 2", "ModuleNotFoundError: No module named 'no_such_package'"),
        ("own_syntax", "own_syntax.py, line 3", "SyntaxError: invalid syntax"),
        ("own_broken", "own_broken.py, line 2", "KeyError: 'a'"),
        ("own_outer", "own_broken.py, line 2", "KeyError: 'a'"),
        ("own_exit", "own_exit.py, line 1", "SystemExit: 3"),
    ],
)
def test_a_failure_inside_the_module_is_told_with_its_place(module: str, place: str, error: str, folder: Path) -> None:
    assert refusal(f"{module}:X") == f"the import of module '{module}' fails at {folder}/{place}: {error}"


def test_the_nearest_class_is_told(folder: Path) -> None:
    assert (
        refusal("own_fine:Gredy")
        == f"module 'own_fine' ({folder}/own_fine.py) has no 'Gredy'; did you mean \"Greedy\"?"
    )
    assert refusal("own_fine:X").endswith("has no 'X'; known: Greedy, Patient")
    assert refusal("own_plain:X").endswith("has no 'X'; it defines no class")
    assert refusal("own_fine:Greedy.Outer").endswith("has no 'Outer'")


def test_the_modules_of_nested_names_are_found_and_other_texts_with_colons_are_not() -> None:
    told = {"order": "own:Order", "parts": ["own_site.near:Outer.Near", {"depth": 3}], "at": "12:30", "door": "ipc://a"}
    assert modules_in(told) == {"own", "own_site.near"}


def test_a_changed_source_has_another_digest(folder: Path) -> None:
    before = source_digests(["own_fine", "own_none"])
    (folder / "own_fine.py").write_text("Greedy = 1\n")
    _source_digest.cache_clear()
    after = source_digests(["own_fine", "own_none"])
    assert (before["own_none"], after["own_none"], len(after["own_fine"])) == ("", "", 64)
    assert before["own_fine"] != after["own_fine"]
