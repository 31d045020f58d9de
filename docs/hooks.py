"""For MkDocs: two pages of the site are files of the repository, whose links begin at its root."""

from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
INCLUDED = {"changelog.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md"}


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """The text of the file in place of the link to it."""
    name = INCLUDED.get(page.file.src_uri)
    if name is None:
        return markdown
    return (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")
