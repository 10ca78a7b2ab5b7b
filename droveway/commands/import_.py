"""`droveway import FILE -o SITE.toml`."""

from pathlib import Path
from typing import Final, Literal

import click

from droveway import exits
from droveway.exits import InputProblem, UsageProblem, quoted, reading, writing
from droveway.main import PATH, WholeNumber
from droveway.main import command as declare
from droveway.output import Output, table

U64_MAX: Final = 2**64 - 1
FORMATS: Final = (".map", ".scen", ".json", ".geojson")
PAIRS: Final = "starts became agents, goals zones; the pairs of start and goal are dropped: the planner decides"
ENDINGS: Final = f"{', '.join(FORMATS[:-1])} or {FORMATS[-1]}"


@declare("import")
@click.argument("file", metavar="FILE", type=PATH)
@click.option("-o", "--output", "site", metavar="SITE.toml", type=PATH, required=True, help="A new file.")
@click.option("--agents", metavar="N", type=WholeNumber(0), help="Agents; of a .scen or League problem: its first N.")
@click.option("--zones", metavar="M", type=WholeNumber(0), help="Zones; only of a .map, the others have their own.")
@click.option("--seed", metavar="S", type=WholeNumber(0, U64_MAX), help="Of the places that are drawn; default 0.")
@click.option("--origin", metavar="LAT,LON[,H]", help="Of a .geojson: where x and y are 0; default its first position.")
@click.option("--polygons", type=click.Choice(["obstacles", "zones"]), help="Of a .geojson; default obstacles.")
def command(
    out: Output, file: Path, site: Path, agents: int | None, zones: int | None, seed: int | None, origin: str | None,
    polygons: Literal["obstacles", "zones"] | None,
) -> int:  # fmt: skip
    """Turn a file of another tool into SITE.toml; a map is copied beside it. Nothing is overwritten, nothing repaired.

    .map (MovingAI): N agents and M zones on distinct free cells of the largest connected part, drawn from the seed.
    .scen (MovingAI): the starts of the first N lines are agents, their goals zones; the pairs are dropped.
    .json (League of Robot Runners): its agents, its tasks as a replayed demand, its delays as [faults].
    .geojson: polygons are obstacles (or zones), points and lines zones; N agents are drawn around them.
    """
    ending = file.suffix.lower()
    if ending not in FORMATS:
        raise InputProblem(file, f"expected a file that ends in {ENDINGS}, got '{file.suffix}'")
    if not site.parent.is_dir():
        raise UsageProblem(site, f"expected the folder {site.parent} to exist", f"mkdir -p {quoted(site.parent)}")
    if ending == ".map" and (agents is None or zones is None):
        raise UsageProblem(None, "a .map has no agents and zones: expected --agents N and --zones M")
    if ending in (".scen", ".json") and (zones is not None or seed is not None):
        raise UsageProblem(None, f"a {ending} has its own zones and draws nothing: expected neither --zones nor --seed")
    if ending == ".geojson" and zones is not None:
        raise UsageProblem(None, "a .geojson has its own zones: expected no --zones")
    if ending != ".geojson" and (origin is not None or polygons is not None):
        raise UsageProblem(None, f"--origin and --polygons belong to a .geojson, got a {ending}")
    notes, scenario, tasks = [], None, None
    from coord.errors import ScenarioError

    with reading(file), writing(site):
        try:
            if ending == ".map":
                from coord.sites.importer import import_map

                scenario = import_map(file, site, agents=agents or 0, zones=zones or 0, seed=seed or 0)
            elif ending == ".scen":
                from coord.sites.importer import import_scen

                scenario = import_scen(file, site, agents=agents)
                notes.append(PAIRS)
            elif ending == ".json":
                from coord.sites.lorr import import_lorr

                found = import_lorr(file, site, agents=agents)
                scenario, notes, tasks = found.scenario, list(found.dropped), found.tasks
            else:
                from coord.sites.geojson import import_geojson

                scenario = import_geojson(
                    file,
                    site,
                    origin=_origin(origin),
                    agents=agents or 0,
                    polygons=polygons or "obstacles",
                    seed=seed or 0,
                )
        except ScenarioError as error:  # the site is ours and is gone: what it says is about the file and the options
            where = error.where.removesuffix(" random").strip("[]")
            option = f"--{where}: " if where in ("agents", "zones") else f"{error.where}: " if error.where else ""
            raise InputProblem(file, f"{option}{error.detail}") from error
    setup = scenario.setup
    if ending == ".geojson" and not len(setup.agents):
        notes.append("no agents: --agents N draws some around the features")
    for note in notes:
        out.note(note)
    placed = scenario.document.get("map")
    record = {
        "site": site,
        "map": None if placed is None else site.parent / placed["file"],
        "agents": len(setup.agents),
        "zones": len(setup.zones),
        "tasks": tasks,
        "obstacles": len(setup.obstacles),
        "seed": setup.seed,
    }
    out.result(record, table([(key, f"{value}") for key, value in record.items() if value is not None]))
    return exits.YES


def _origin(text: str | None) -> tuple[float, float, float] | None:
    if text is None:
        return None
    try:
        numbers = [float(word) for word in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) not in (2, 3) or not (abs(numbers[0]) <= 90 and abs(numbers[1]) <= 180 and abs(numbers[-1]) < 1e6):
        raise UsageProblem(None, f"--origin: expected LAT,LON or LAT,LON,HEIGHT in degrees and metres, got {text!r}")
    return numbers[0], numbers[1], numbers[2] if len(numbers) == 3 else 0.0
