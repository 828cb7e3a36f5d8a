"""The pages of docs/reference are as the programs print them now."""

from __future__ import annotations

from pathlib import Path

from scripts.reference_pages import main


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
