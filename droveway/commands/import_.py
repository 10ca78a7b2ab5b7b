"""`droveway import FILE -o SITE.toml`."""

from pathlib import Path
from typing import Final

import click

from droveway import exits
from droveway.exits import InputProblem, UsageProblem, quoted, reading, writing
from droveway.main import PATH, WholeNumber
from droveway.main import command as declare
from droveway.output import Output, table

U64_MAX: Final = 2**64 - 1
FORMATS: Final = (".map", ".scen")


@declare("import")
@click.argument("file", metavar="FILE", type=PATH)
@click.option("-o", "--output", "site", metavar="SITE.toml", type=PATH, required=True, help="A new file.")
@click.option("--agents", metavar="N", type=WholeNumber(0), help="Agents; of a .scen: its first N lines.")
@click.option("--zones", metavar="M", type=WholeNumber(0), help="Zones; a .scen has one a line.")
@click.option("--seed", metavar="S", type=WholeNumber(0, U64_MAX), help="Of the places drawn on a .map; default 0.")
def command(out: Output, file: Path, site: Path, agents: int | None, zones: int | None, seed: int | None) -> int:
    """Turn a MovingAI .map or .scen file into SITE.toml; the map is copied beside it.

    .map: N agents and M zones on distinct free cells of the largest connected part, drawn from the seed. .scen: the
    starts of the first N lines are agents, their goals zones; which goal belongs to which start is dropped: the planner
    decides who goes where. Nothing is overwritten.
    """
    ending = file.suffix.lower()
    if ending not in FORMATS:
        raise InputProblem(file, f"expected a file that ends in {' or '.join(FORMATS)}, got '{file.suffix}'")
    if not site.parent.is_dir():
        raise UsageProblem(site, f"expected the folder {site.parent} to exist", f"mkdir -p {quoted(site.parent)}")
    if ending == ".map" and (agents is None or zones is None):
        raise UsageProblem(None, "a .map has no agents and zones: expected --agents N and --zones M")
    if ending == ".scen" and (zones is not None or seed is not None):
        raise UsageProblem(None, "a .scen has its own zones and draws nothing: expected neither --zones nor --seed")
    from coord.errors import ScenarioError
    from coord.importer import import_map, import_scen

    with reading(file), writing(site):
        try:
            if ending == ".map":
                scenario = import_map(file, site, agents=agents or 0, zones=zones or 0, seed=seed or 0)
            else:
                scenario = import_scen(file, site, agents=agents)
        except ScenarioError as error:  # the site is ours and is gone: what it says is about the file and the options
            where = error.where.removesuffix(" random").strip("[]")
            option = f"--{where}: " if where in ("agents", "zones") else f"{error.where}: " if error.where else ""
            raise InputProblem(file, f"{option}{error.detail}") from error
    setup = scenario.setup
    if ending == ".scen":
        out.note("starts became agents, goals zones; the pairs of start and goal are dropped: the planner decides")
    record = {
        "site": site,
        "map": site.parent / scenario.document["map"]["file"],
        "agents": len(setup.agents),
        "zones": len(setup.zones),
        "seed": setup.seed,
    }
    out.result(record, table([(key, f"{value}") for key, value in record.items()]))
    return exits.YES
