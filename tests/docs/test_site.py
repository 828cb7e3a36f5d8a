"""The site of the documentation opens from a folder: its links lead to files, and its search works without a server."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from scripts.browser import CHROMIUM, browser
from tests.processes import ROOT

pytest.importorskip("material", reason="needs the docs extra")


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_links_and_search_work_from_a_folder(tmp_path: Path) -> None:
    site = tmp_path / "site"
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(site)],
        cwd=ROOT,
        check=True,
        timeout=600,
    )
    lost = [
        (page.name, target)
        for page in site.rglob("*.html")
        if page.name != "404.html"
        for target in re.findall(r'(?:href|src)="([^"#?:]+)(?:[#?][^"]*)?"', page.read_text(encoding="utf-8"))
        if not (page.parent / target).is_file()
    ]
    assert lost == []
    with browser(tmp_path / "profile") as chromium:
        chromium.call("Page.navigate", url=(site / "index.html").as_uri())
        found: list[str] = []
        until = time.monotonic() + 60
        while not found and time.monotonic() < until:
            chromium.run(
                "{ const box = document.querySelector('.md-search__input'); box?.focus(); if (box) box.value = 'drain';"
                " box?.dispatchEvent(new Event('input')); }"
            )
            time.sleep(0.5)
            found = chromium.run("[...document.querySelectorAll('.md-search-result__item a')].map((link) => link.href)")
        assert found
        assert all(link.startswith("file:") for link in found)
        assert [request for request in chromium.requests if not request.startswith(("file:", "data:"))] == []
