"""`droveway info FILE`."""

from pathlib import Path

import click

from droveway import exits
from droveway.main import PATH
from droveway.main import command as declare
from droveway.output import Output, table


@declare("info")
@click.argument("file", metavar="FILE", type=PATH)
def command(out: Output, file: Path) -> int:
    """Say what a run, a SITE.toml, a .map or a .scen file holds. Reads only, proves nothing."""
    from droveway.file_info import describe

    record = describe(out, file)
    out.result(record, table([(key.replace("_", " "), _shown(value)) for key, value in record.items()]))
    return exits.YES


def _shown(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return ", ".join(f"{key} {_shown(item)}" for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_shown, value))
    return f"{value}"
