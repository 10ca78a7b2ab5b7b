"""`droveway index build|info|add|remove`."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from droveway import exits
from droveway.exits import InputProblem, UsageProblem, writing
from droveway.main import PATH, CommandGroup, WholeNumber
from droveway.main import command as declare
from droveway.output import Output, table
from droveway.progress import Progress

if TYPE_CHECKING:
    from droveway.npy_file import NpyFile

U64_MAX: Final = 2**64 - 1
ENDINGS: Final = (".jvim", ".jvi")
METRICS: Final = ("ip", "cosine", "l2")


@click.group("index", cls=CommandGroup)
def command() -> None:
    """Make an index of vectors, say what it holds, add rows and remove them.

    An index is one file: .jvim with an id for each row, .jvi with rows by their number. It keeps 4 bits a coordinate,
    its bytes are the same on every machine, and its cid (the root of a hash tree over them) names it. Loading checks
    every byte; a command leaves the old file or the new one, never half of it.
    """


@declare("build", short_help="Make an index of vectors, or of the moments of a run.")
@click.argument("source", metavar="VECTORS.npy|RUN", type=PATH)
@click.option("-o", "--output", "file", metavar="X.jvim", type=PATH, required=True, help="With ids; .jvi: without.")
@click.option("--ids", metavar="F", type=PATH, help="Of the rows, uint64[n] in a .npy file; default: 0, 1, 2 …")
@click.option("--bits", metavar="B", type=WholeNumber(), default=4, help="Bits a coordinate; this version has 4.")
@click.option(
    "--metric", type=click.Choice(METRICS), help="ip: inner product; l2: distance. Default: ip, of a RUN cosine."
)
@click.option(
    "--seed",
    metavar="S",
    type=WholeNumber(0, U64_MAX),
    default=0,
    show_default=True,
    help="Of the rotation of the vectors.",
)
def build(out: Output, source: Path, file: Path, ids: Path | None, bits: int, metric: str | None, seed: int) -> int:
    """Make an index of the rows of a .npy file, float32[n, d], or of the moments of a RUN.

    The moments of a run are its planned ticks, 128 numbers each: in 8 × 4 tiles of its map, agents on the way, agents
    at work, agents bound for it, and how long its zones have waited. Their ids are the ticks.
    """
    from droveway.index_files import index_record
    from droveway.whole_file import require_another, require_ending, require_place

    if bits != 4:
        raise UsageProblem(None, f"--bits: this version has 4 bits a coordinate, got {bits}")
    require_ending(file, *ENDINGS)
    require_place(file)
    require_another(file, source, ids)
    with_ids = file.name.lower().endswith(".jvim")
    if ids is not None and not with_ids:
        raise UsageProblem(file, "a .jvi has no ids: expected no --ids", "or an output that ends in .jvim")
    if source.is_dir():
        if ids is not None:
            raise UsageProblem(None, "the ids of a run's moments are its ticks: expected no --ids")
        index = _of_run(out, source, with_ids, bits, metric or "cosine", seed)
    else:
        index = _of_vectors(out, source, with_ids, ids, bits, metric or "ip", seed)
    with writing(file):
        index.save(file)
    record = index_record(file, index)
    out.result(record, _described(record))
    return exits.YES


@declare("info", short_help="Say what an index holds; every byte is checked.")
@click.argument("file", metavar="X.jvim", type=PATH)
def info(out: Output, file: Path) -> int:
    """Say what an index holds, after checking every byte of it."""
    from droveway.index_files import index_record, load_index

    record = index_record(file, load_index(file))
    out.result(record, _described(record))
    return exits.YES


@declare("add", short_help="Add rows, all or none.")
@click.argument("file", metavar="X.jvim", type=PATH)
@click.argument("vectors", metavar="VECTORS.npy", type=PATH)
@click.option("--ids", metavar="F", type=PATH, help="A .npy file of uint64[n], one for each new row; needed for .jvim.")
@click.option("--upsert", is_flag=True, help="Replace rows whose ids are there already.")
def add(out: Output, file: Path, vectors: Path, ids: Path | None, upsert: bool) -> int:
    """Add rows to an index: all of them, or none where an id is there already."""
    from droveway.index_files import about, changing_index, index_kind, index_record
    from droveway.npy_file import VECTORS, NpyFile, check_dim, read_ids

    with changing_index(file) as index:
        with_ids = index_kind(file) == "jvim"
        if with_ids and ids is None:
            raise UsageProblem(
                file, "new rows need ids: expected --ids F, uint64[n] in a .npy file", _next_ids(index, vectors)
            )
        if not with_ids and (ids is not None or upsert):
            raise UsageProblem(file, "the rows of a .jvi go by number: expected neither --ids nor --upsert")
        before = len(index)
        with NpyFile(vectors, VECTORS) as rows:
            check_dim(vectors, rows.shape, index.dim, file)
            if ids is None:
                for block in _told(rows, out):
                    index.add(block)
            else:
                numbers = read_ids(ids, once=True)
                _require_as_many(ids, len(numbers), vectors, len(rows))
                with about(ids):
                    (index.upsert if upsert else index.add)(rows.read(), numbers)
    record = {**index_record(file, index), "added": len(index) - before}
    out.result(record, _described(record))
    return exits.YES


@declare("remove", short_help="Remove rows by their ids, all or none.")
@click.argument("file", metavar="X.jvim", type=PATH)
@click.argument("ids", metavar="IDS.npy", type=PATH)
def remove(out: Output, file: Path, ids: Path) -> int:
    """Remove the rows with these ids, uint64[n] in a .npy file: all of them, or none where an id is unknown."""
    from droveway.index_files import about, changing_index, index_record
    from droveway.npy_file import read_ids

    with changing_index(file, with_ids=True) as index:
        before = len(index)
        numbers = read_ids(ids, once=True)
        with about(ids):
            index.remove(numbers)
    record = {**index_record(file, index), "removed": before - len(index)}
    out.result(record, _described(record))
    return exits.YES


for _subcommand in (build, info, add, remove):
    command.add_command(_subcommand)


def _of_vectors(out: Output, source: Path, with_ids: bool, ids: Path | None, bits: int, metric: str, seed: int) -> Any:
    import numpy as np

    from droveway.index_files import about
    from droveway.npy_file import VECTORS, NpyFile, read_ids
    from vector import IdMapIndex, TurboIndex

    with NpyFile(source, VECTORS) as rows:
        with about(source):
            index: Any = (IdMapIndex if with_ids else TurboIndex)(rows.shape[1], bits, metric, seed)
        numbers = None if ids is None else read_ids(ids, once=True)
        if numbers is not None and ids is not None:
            _require_as_many(ids, len(numbers), source, len(rows))
        start = 0
        for block in _told(rows, out):
            stop = start + len(block)
            if not with_ids:
                index.add(block)
            elif numbers is None:
                index.add(block, np.arange(start, stop, dtype=np.uint64))
            else:
                index.add(block, numbers[start:stop])
            start = stop
    return index


def _of_run(out: Output, source: Path, with_ids: bool, bits: int, metric: str, seed: int) -> Any:
    import numpy as np

    from coord.fields.features import FEATURES
    from droveway.reading_run import opened_run
    from droveway.run_moments import moments
    from vector import IdMapIndex, TurboIndex

    index: Any = (IdMapIndex if with_ids else TurboIndex)(FEATURES, bits, metric, seed)
    with opened_run(out, source) as reader:
        rows, ticks = moments(reader)
    if with_ids:
        index.add(rows, ticks.astype(np.uint64))
    else:
        index.add(rows)
    return index


def _next_ids(index: Any, vectors: Path) -> str:
    """The line that writes ids for new rows, those after the highest of the index; empty where they run out."""
    from droveway.npy_file import VECTORS, NpyFile, python_line

    with NpyFile(vectors, VECTORS) as rows:
        count = len(rows)
    start = int(index.ids().max()) + 1 if len(index) else 0
    if start + count > U64_MAX:
        return ""
    new = str(vectors.with_name(f"{vectors.stem}.ids.npy"))
    return python_line(f"import numpy as np; np.save({new!r}, np.arange({start}, {start + count}, dtype=np.uint64))")


def _told(rows: "NpyFile", out: Output) -> Iterator[Any]:
    """The blocks of a file, with a bar on a terminal."""
    with Progress("rows", quiet=out.quiet) as progress:
        for start, block in rows.blocks():
            yield block
            progress.update(start + len(block), len(rows))


def _require_as_many(ids: Path, count: int, vectors: Path, rows: int) -> None:
    if count != rows:
        raise InputProblem(ids, f"expected {rows} ids, one for each row of {vectors}, got {count}")


def _described(record: dict[str, object]) -> str:
    rows = [
        ("index", f"{record['path']}"),
        ("rows", f"{record['rows']} of {record['dim']} numbers, {record['bits']} bits each"),
        ("metric", f"{record['metric']}, seed {record['seed']}"),
        ("size", f"{record['bytes']} bytes"),
        ("cid", f"{record['cid']}"),
    ]
    for change in ("added", "removed"):
        if change in record:
            rows.insert(1, (change, f"{record[change]}"))
    return table(rows)
