"""Links of all pages lead to an existing file and heading; every page is in the navigation of the site; the book stays short."""

from __future__ import annotations

import pkgutil
import re
from collections import Counter
from pathlib import Path

import pytest
from scripts.doc_files import FENCE
from tests.processes import ROOT

DOCS = ROOT / "docs"
# Pages outside docs/ that are part of the site (scripts/site/hook.py).
OUTSIDE = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "plugin/PROTOCOL.md",
    "plugin/PROTOCOL-EXAMPLES.md",
    "hwmodel/MODEL.md",
]
PAGES = [*OUTSIDE, *sorted(path.relative_to(ROOT).as_posix() for path in DOCS.rglob("*.md"))]
# What a reader may read: all but the changes, printed references, and appendices: rows behind the results, the protocol's examples.
APART = {"CHANGELOG.md", "plugin/PROTOCOL-EXAMPLES.md"}
BOOK = [page for page in PAGES if page not in APART and not {"reference", "appendix"} & {*Path(page).parts}]
READ = [page for page in BOOK if page == "README.md" or re.fullmatch(r"docs/(results/)?[\w-]+\.md", page)]
MOST_WORDS = 62_000  # of what is read: README, docs/*.md, docs/results/*.md
MOST_OF_SPECIFICATIONS = 13_800  # of the rest: protocol, models, contributing
MOST_OF_RESULTS = 3_000  # of a page of results
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")


def anchors(text: str) -> set[str]:
    """Return the anchors of the headings of this Markdown; repeated headings are numbered."""
    seen: Counter[str] = Counter()
    found = set()
    for title in re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title)  # a link in a heading counts by its text
        anchor = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        found.add(f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor)
        seen[anchor] += 1
    return found


def lost_links(page: Path) -> list[str]:
    """Return the broken links of a page; links to other sites are not checked."""
    lost = []
    for match in _LINK.finditer(FENCE.sub("", page.read_text(encoding="utf-8"))):
        target = match[1] or match[2]
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and anchor not in anchors(file.read_text(encoding="utf-8"))):
            lost.append(target)
    return lost


@pytest.mark.parametrize("page", PAGES)
def test_no_link_is_broken(page: str) -> None:
    assert lost_links(ROOT / page) == []


def test_broken_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# A [title](x.md), and more\n## Twice\n## Twice\n", encoding="utf-8")
    page = tmp_path / "page.md"
    good = "[a](other.md) [b](other.md#a-title-and-more) [c](other.md#twice-1) [d](https://example.org/x)"
    page.write_text(f"{good} ![e](no.png) [f](other.md#no) [g](#no)\n```\n[h](no.md)\n```\n", encoding="utf-8")
    assert lost_links(page) == ["no.png", "other.md#no", "#no"]


def test_every_page_is_in_the_navigation() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = re.findall(r"^ +- .+: (\S+\.md)$", text.partition("\nnav:\n")[2], re.MULTILINE)
    hook = (ROOT / "scripts" / "site" / "hook.py").read_text(encoding="utf-8")
    generated = dict(re.findall(r'^    "(\S+\.md)": "(\S+\.md)",$', hook, re.MULTILINE))
    assert list(generated) == OUTSIDE
    inside = [path.removeprefix("docs/") for path in PAGES if path not in OUTSIDE]
    assert sorted(listed) == sorted([*inside, *generated.values()])


def test_the_index_links_every_page() -> None:
    """The index links every page; an appendix is linked by the page whose rows it has."""

    def linked(page: str) -> set[Path]:
        targets = re.findall(r"\]\(([^)#\s]+)", (ROOT / page).read_text(encoding="utf-8"))
        return {(ROOT / page).parent.joinpath(target).resolve() for target in targets}

    named = linked("docs/index.md")
    appendices = [page for page in PAGES if "/appendix/" in page]
    rest = [page for page in PAGES if page not in appendices and page != "docs/index.md"]
    assert [page for page in rest if (ROOT / page).resolve() not in named] == []
    assert appendices
    for page in appendices:
        assert any((ROOT / page).resolve() in linked(other) for other in rest), page


@pytest.mark.parametrize("page", sorted((DOCS / "api").glob("*.md")), ids=lambda page: page.stem)
def test_the_api_pages_name_what_exists(page: Path) -> None:
    names = re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert [name for name, times in Counter(names).items() if times > 1] == []
    for name in names:
        pkgutil.resolve_name(name)  # raises where the site could not collect it


# ---------------------------------------------------------------- length


def words(page: str) -> int:
    return len((ROOT / page).read_text(encoding="utf-8").split())


def test_the_book_is_no_longer_than_a_book() -> None:
    """A new page takes its words from another one; tables that a program knows are printed into docs/reference."""
    assert len(READ) > 40
    for pages, most in ((READ, MOST_WORDS), ([page for page in BOOK if page not in READ], MOST_OF_SPECIFICATIONS)):
        count = sum(map(words, pages))
        assert count <= most, f"take {count - most} words out of {', '.join(pages)}"


@pytest.mark.parametrize("page", [page for page in BOOK if page.startswith("docs/results/")])
def test_a_page_of_results_is_read_at_one_go(page: str) -> None:
    assert words(page) <= MOST_OF_RESULTS
