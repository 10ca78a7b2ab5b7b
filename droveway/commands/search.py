"""`droveway search X.jvim Q.npy`."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from droveway import exits
from droveway.exits import quoted
from droveway.main import PATH, WholeNumber
from droveway.main import command as declare
from droveway.output import Output, table

if TYPE_CHECKING:
    from droveway.npy_file import NpyFile

SHOWN_QUERIES: Final = 10
SHOWN_ROWS: Final = 5
BLOCK_BYTES: Final = 1 << 18


@declare("search")
@click.argument("file", metavar="X.jvim", type=PATH)
@click.argument("queries", metavar="Q.npy", type=PATH)
@click.option("-k", "k", metavar="K", type=WholeNumber(0), default=10, show_default=True, help="Rows for each query.")
@click.option("--allow", metavar="IDS.npy", type=PATH, help="Only these ids, uint64[n]; of a .jvi row numbers.")
@click.option("--deny", metavar="IDS.npy", type=PATH, help="None of these ids, uint64[n].")
@click.option(
    "-o", "--output", "answer", metavar="ANSWER.npz", type=PATH, help="Keep all scores and ids, as numpy arrays."
)
def command(
    out: Output, file: Path, queries: Path, k: int, allow: Path | None, deny: Path | None, answer: Path | None
) -> int:
    """Find the K rows of an index that score best with each query, float32[n, d] in a .npy file.

    Prints `id (score)` of the 5 best rows of the first 10 queries; -o and --json have them all. Best first, equal
    scores by the lower id; fewer than K where the index, or the list of allowed ids, has no more. Scores are estimates
    from 4 bits a coordinate: a cosine can come out a little above 1. The answer is the same on every machine and for
    any number of threads: its digests stand in the last lines.
    """
    from droveway.index_files import about, index_kind, load_index
    from droveway.npy_file import VECTORS, NpyFile, check_dim, read_ids
    from droveway.whole_file import require_another, require_ending, require_place

    if answer is not None:
        require_ending(answer, ".npz")
        require_place(answer)
        require_another(answer, file, queries, allow, deny)
    swapped = queries.is_file() and index_kind(queries) is not None
    hint = f"the index comes first: droveway search {quoted(queries)} {quoted(file)}" if swapped else ""
    index: Any = load_index(file, otherwise=hint)
    lists = {}
    for name, path in (("allow", allow), ("deny", deny)):
        if path is not None:
            lists[name] = read_ids(path)
    with NpyFile(queries, VECTORS) as rows:
        check_dim(queries, rows.shape, index.dim, file)
        with about(queries, allow=allow, deny=deny):
            scores, ids = _answers(index, rows, k, lists)
    _tell(out, scores, ids)
    if answer is not None:
        _save(answer, scores, ids, index.cid)
    record = _record(file, queries, index, k, scores, ids, answer)
    out.result(record, _described(record))
    return exits.YES


def _answers(index: Any, rows: "NpyFile", k: int, lists: dict[str, Any]) -> tuple[Any, Any]:
    """float32[n, m] and uint64[n, m]: the scores and ids of all queries, found block by block."""
    import numpy as np

    scores, ids = [], []
    for _, block in rows.blocks(BLOCK_BYTES) if len(rows) else ((0, np.zeros(rows.shape, np.float32)),):
        found = index.search(block, k, **lists)
        scores.append(found[0])
        ids.append(found[1])
    return np.concatenate(scores), np.concatenate(ids)


def _lines(scores: Any, ids: Any) -> Iterator[tuple[list[int], list[float]]]:
    for of, found in zip(scores, ids, strict=True):
        yield found.tolist(), of.tolist()


def _tell(out: Output, scores: Any, ids: Any) -> None:
    shown = len(ids) if out.as_json else SHOWN_QUERIES
    for number, (found, of) in enumerate(_lines(scores[:shown], ids[:shown])):
        best = [f"{identity} ({score:.4g})" for identity, score in zip(found, of, strict=True)]
        text = ", ".join(best[:SHOWN_ROWS]) + (" …" if len(best) > SHOWN_ROWS else "")
        out.result({"type": "query", "query": number, "ids": found, "scores": of}, f"query {number}: {text or 'none'}")
    if len(ids) > shown:
        out.text(f"and {len(ids) - shown} more queries: -o ANSWER.npz keeps them all")


def _save(answer: Path, scores: Any, ids: Any, cid: str) -> None:
    import numpy as np

    from droveway.whole_file import whole_file

    with whole_file(answer) as place, place.open("xb") as stream:
        np.savez(stream, scores=scores, ids=ids, cid=np.frombuffer(bytes.fromhex(cid), np.uint8))


def _record(
    file: Path, queries: Path, index: Any, k: int, scores: Any, ids: Any, answer: Path | None
) -> dict[str, object]:
    from tensor import digest

    return {
        "type": "answer",
        "index": file,
        "queries": queries,
        "count": len(ids),
        "k": k,
        "found": ids.shape[1],
        "rows": len(index),
        "cid": index.cid,
        "ids_digest": digest(ids),
        "scores_digest": digest(scores),
        "saved": answer,
    }


def _described(record: dict[str, object]) -> str:
    rows = [
        ("answer", f"{record['count']} queries, {record['found']} of {record['rows']} rows each"),
        ("index", f"{record['cid']}"),
        ("ids", f"{record['ids_digest']}"),
        ("scores", f"{record['scores_digest']}"),
    ]
    if record["saved"] is not None:
        rows.append(("saved", f"{record['saved']}"))
    return table(rows)
