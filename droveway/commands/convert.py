"""`droveway convert IN OUT`."""

from pathlib import Path

import click

from droveway import exits
from droveway.exits import UsageProblem
from droveway.main import PATH
from droveway.main import command as declare
from droveway.output import Output, table
from droveway.scene_files import AXES_HELP


@declare("convert")
@click.argument("source", metavar="IN", type=PATH)
@click.argument("target", metavar="OUT", type=PATH)
@click.option("--axes", metavar="AXES", help=AXES_HELP)
@click.option("--repair", is_flag=True, help="Leave out splats that no picture can be made of, and say how many.")
def command(out: Output, source: Path, target: Path, axes: str | None, repair: bool) -> int:
    """Read a splat scene (INRIA .ply, compressed .ply, .splat, SOG) and write it as INRIA .ply, which other tools read.

    Means, scales, rotations and colours are kept to the bit in float32, in axes x right, y down, z forward; the opacity
    is written as the logit that the format asks for. OUT is replaced when it is there.
    """
    from droveway.scene_files import load_scene
    from droveway.whole_file import require_another, require_ending, require_place, whole_file

    require_ending(target, ".ply")
    if target.name.lower().endswith(".compressed.ply"):
        raise UsageProblem(target, "expected an output that ends in .ply alone: compressed .ply is read, not written")
    require_place(target)
    require_another(target, source)
    scene = load_scene(out, source, axes=axes, repair=repair)
    with whole_file(target) as place:
        scene.save(place)
    record = {
        "source": source,
        "target": target,
        "splats": len(scene),
        "sh_degree": scene.degree,
        "axes": scene.source_axes,
        "bytes": target.stat().st_size,
    }
    rows = [
        ("from", f"{source}, axes {scene.source_axes}"),
        ("to", f"{target}, {record['bytes']} bytes"),
        ("splats", f"{len(scene)}, spherical harmonics of degree {scene.degree}"),
    ]
    out.result(record, table(rows))
    return exits.YES
