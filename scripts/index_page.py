"""The page of a package index, made when a package is built: README.md, whose links and pictures lead into the repository.

``files`` and ``pictures`` of ``[tool.hatch.metadata.hooks.custom]`` are the addresses below which the repository's files can be read
and loaded, ``repository`` is its own. Empty: none is known, and a link is its text alone; a page must not have links that lead nowhere.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from hatchling.metadata.plugin.interface import MetadataHookInterface
else:
    try:
        from hatchling.metadata.plugin.interface import MetadataHookInterface
    except ImportError:  # only builds have it; tests ask for the page
        MetadataHookInterface = object

_PICTURE: Final = re.compile(r"!\[([^\]]*)\]\((?![a-z]+:)([^)\s]+)\)\n?")
_LINK: Final = re.compile(r"(?<!!)\[([^\]]*)\]\((?![a-z]+:)([^)\s]+)\)")


def absolute(text: str, files: str, pictures: str) -> str:
    """Return Markdown whose relative links are absolute."""
    text = _PICTURE.sub(lambda found: f"![{found[1]}]({pictures}{found[2]})\n" if pictures else "", text)
    return _LINK.sub(lambda found: f"[{found[1]}]({files}{found[2]})" if files else found[1], text)


class IndexPage(MetadataHookInterface):
    """The hook that hatchling calls."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the page, and the addresses that are known."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        page = absolute(text, self.config.get("files", ""), self.config.get("pictures", ""))
        metadata["readme"] = {"content-type": "text/markdown", "text": page}
        repository = self.config.get("repository", "")
        metadata["urls"] = (
            {"Repository": repository, "Changelog": f"{self.config['files']}CHANGELOG.md"} if repository else {}
        )
