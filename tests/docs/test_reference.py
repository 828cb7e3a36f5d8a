"""The pages of docs/reference are as the programs print them now."""

from __future__ import annotations

from pathlib import Path

from scripts.reference_pages import main
from scripts.reference_pages.records import fields_of, records


def test_the_reference_is_up_to_date() -> None:
    assert main.stale() == [], "run scripts/reference"


def test_a_changed_and_a_strange_page_are_found(tmp_path: Path) -> None:
    for name in main.PAGES:
        (tmp_path / name).write_text(main.page_text(name), encoding="utf-8")
    assert main.stale(tmp_path) == []
    first = next(iter(main.PAGES))
    (tmp_path / first).write_text("by hand", encoding="utf-8")
    (tmp_path / "strange.md").touch()
    assert main.stale(tmp_path) == ["strange.md", first]


def test_every_field_of_every_record_has_a_meaning() -> None:
    """The meaning of a field is the comment beside it; `fields_of` finds those that a named tuple really has."""
    for name, kind in records().items():
        found = fields_of(kind)
        if hasattr(kind, "_fields"):
            assert [field for field, _, _ in found] == list(kind._fields), name
        else:
            slots = [slot for slot in kind.__slots__ if not slot.startswith("_")]  # type: ignore[attr-defined]
            assert sorted(field for field, _, _ in found) == sorted(slots), name
        assert [field for field, _, meaning in found if not meaning] == [], name
