"""`droveway info FILE`."""

import json
from pathlib import Path
from typing import Final

import click

from droveway import exits
from droveway.main import PATH
from droveway.main import command as declare
from droveway.output import Output, table

SHOWN_MAX: Final = 12
SCHEMA: Final = 'python -c "import coord, json; print(json.dumps(coord.json_schema()))"'


@declare("info")
@click.argument("file", metavar="FILE", type=PATH)
def command(out: Output, file: Path) -> int:
    """Say what a run, a SITE.toml, a .map, a .scen, an index or a splat scene holds. Reads only.

    Of a run nothing is proven: that is `droveway verify`. Of an index every byte is checked. Of a scene it prints the
    camera that shows it, as JSON that `render --camera` takes.
    """
    from droveway.file_info import describe

    record = describe(out, file)
    rows = [(key.replace("_", " "), _value(key, value)) for key, value in record.items()]
    if record["kind"] == "site":
        rows.append(("schema", SCHEMA))
    out.result(record, table(rows))
    return exits.YES


def _value(key: str, value: object) -> str:
    return json.dumps(value) if key == "camera" else _shown(value)


def _shown(value: object) -> str:
    if value is None or value in ([], {}):
        return "none"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return ", ".join(f"{key} {_shown(item)}" for key, item in value.items())
    if isinstance(value, (list, tuple)):
        shown = ", ".join(map(_shown, value[:SHOWN_MAX]))
        return shown if len(value) <= SHOWN_MAX else f"{shown} and {len(value) - SHOWN_MAX} more"
    return f"{value}"
