"""Writes what docs/formats has from coord/sites/scenario_schema.py: `python tests/regenerate_site_toml.py`.

That is the JSON schema of SITE.toml, and the tables of keys in site-toml.md, from "## Keys" to the next heading.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from coord.sites.site_schema import json_schema, markdown_tables

FORMATS = Path(__file__).parents[1] / "docs" / "formats"
HEAD = "\n## Keys\n"


def page(text: str) -> str:
    """The text of site-toml.md with its tables made again."""
    before, head, after = text.partition(HEAD)
    _, next_head, rest = after.partition("\n## ")
    return f"{before}{head}\n{markdown_tables().strip()}\n{next_head}{rest}"


def write(path: Path, text: str) -> None:
    """Write a file, and say whether that changed it."""
    changed = not path.exists() or path.read_text() != text
    path.write_text(text)
    sys.stdout.write(f"{path.name}: {'written' if changed else 'unchanged'}\n")


if __name__ == "__main__":
    write(FORMATS / "site-toml.schema.json", json.dumps(json_schema(), indent=1, ensure_ascii=False) + "\n")
    write(FORMATS / "site-toml.md", page((FORMATS / "site-toml.md").read_text()))
