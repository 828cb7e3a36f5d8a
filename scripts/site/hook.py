"""Pages of the site that lie outside docs/: mkdocs calls this module, see `hooks` in mkdocs.yml.

The README, the protocol, the hardware model and other pages are in the folders of the sources that they describe. They become
pages of the site. Links to them, or to any other file of the project, are adapted, and so are the first lines of code blocks.
"""

from __future__ import annotations

import os.path
import re
from pathlib import Path
from typing import Any, Final

import aafigure
from mkdocs.structure.files import File, Files

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = "docs"
OUTSIDE: Final = {
    "README.md": "readme.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "plugin/PROTOCOL.md": "protocol.md",
    "plugin/PROTOCOL-EXAMPLES.md": "protocol-examples.md",
    "hwmodel/MODEL.md": "hardware-model.md",
}
_SOURCES: Final = {page: source for source, page in OUTSIDE.items()}
_FENCE: Final = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_LINK: Final = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that lie outside docs/, and the script that lets the search work without a server."""
    for source, page in OUTSIDE.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    shim = (ROOT / "scripts" / "site" / "iframe-worker.js").read_text(encoding="utf-8")
    files.append(File.generated(config, config["extra"]["polyfills"][0], content=shim))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Change the links of a page."""
    here = page.file.src_uri
    source = _SOURCES.get(here, f"{DOCS}/{here}")

    def changed(match: re.Match[str]) -> str:
        image, text, target = match.groups()
        path, mark, anchor = target.partition("#")
        if not path or re.match(r"[a-z]+:", target):
            return match[0]
        file = os.path.normpath(os.path.join(os.path.dirname(source), path))
        to = OUTSIDE.get(file, file.removeprefix(f"{DOCS}/"))
        if to == file and (ROOT / file).exists():
            return text if text.startswith("`") else f"{text} (`{file}`)"  # a file of the sources has no page
        return f"{image}[{text}]({os.path.relpath(to, os.path.dirname(here) or '.')}{mark}{anchor})"

    parts = _FENCE.split(markdown)
    return "".join([_plain_fence(part) if part.startswith("```") else _LINK.sub(changed, part) for part in parts])


def _plain_fence(fence: str) -> str:
    """Return a block without the words after its language, which are for the tests; a file's name becomes its title.

    A block of language ``picture`` is drawn; one with ``from=PATH`` shows that file.
    """
    first, rest = fence.split("\n", 1)
    language, *words = first.split()
    if language == "```picture":
        return _drawn(rest.rsplit("```", 1)[0])
    for path in [word.partition("=")[2] for word in words if word.startswith("from=")]:
        rest = f"{(ROOT / path).read_text(encoding='utf-8')}```"
    names = [word.partition("=")[2] for word in words if word.startswith("file=")]
    return "\n".join([" ".join([language, *[f'title="{name}"' for name in names]]), rest])


def _drawn(text: str) -> str:
    """Return a picture of boxes, lines and arrows in characters as SVG, in the colour of the page's text."""
    options = {"format": "svg", "textual_strict": True, "scale": 0.75, "line_width": 1.5, "foreground": "#010203"}
    svg = aafigure.render(text, options=options)[1].getvalue().decode()
    return f"<div>{svg[svg.index('<svg') :].replace('#010203', 'currentColor')}</div>"
