"""index build, info, add, remove and search: what they answer, and what they say to the mistakes that people make."""

import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vector import IdMapIndex, TurboIndex
from vector.synthetic import mixture

Ask = Callable[..., Any]
ROWS, _ = mixture(np.eye(24, dtype=np.float32) * np.float32(3), 300, 0.4, 11)
QUERIES, _ = mixture(np.eye(24, dtype=np.float32) * np.float32(3), 7, 0.4, 12)
IDS = np.arange(300, dtype=np.uint64) * np.uint64(7) + np.uint64(2**60)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """rows.npy, ids.npy, q.npy and x.jvim, the index of them."""
    np.save(tmp_path / "rows.npy", ROWS)
    np.save(tmp_path / "ids.npy", IDS)
    np.save(tmp_path / "q.npy", QUERIES)
    index = IdMapIndex(24, metric="cosine", seed=5)
    index.add(ROWS, IDS)
    index.save(tmp_path / "x.jvim")
    return tmp_path


def listing(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


START = ["ids.npy", "q.npy", "rows.npy", "x.jvim"]


@pytest.mark.parametrize("metric", ["ip", "cosine", "l2"])
def test_a_built_index_is_the_file_that_python_saves(metric: str, folder: Path, ask: Ask) -> None:
    options = ("--ids", folder / "ids.npy", "--metric", metric, "--seed", 9)
    record = ask("index", "build", folder / "rows.npy", "-o", folder / "made.jvim", *options, "--json").record
    index = IdMapIndex(24, metric=metric, seed=9)
    index.add(ROWS, IDS)
    index.save(folder / "python.jvim")
    assert (folder / "made.jvim").read_bytes() == (folder / "python.jvim").read_bytes()
    assert record == {
        "kind": "jvim", "path": str(folder / "made.jvim"), "rows": 300, "dim": 24, "bits": 4, "metric": metric,
        "seed": 9, "bytes": (folder / "made.jvim").stat().st_size, "cid": index.cid,
    }  # fmt: skip
    assert ask("info", folder / "made.jvim", "--json").record == record
    assert ask("index", "info", folder / "made.jvim", "--json").record == record


def test_many_blocks_are_the_same_index_as_one(folder: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    ask("index", "build", folder / "rows.npy", "-o", folder / "a.jvim")
    from droveway import npy_file

    monkeypatch.setattr(npy_file.NpyFile.blocks, "__defaults__", (1000,))
    ask("index", "build", folder / "rows.npy", "-o", folder / "b.jvim")
    assert (folder / "a.jvim").read_bytes() == (folder / "b.jvim").read_bytes()
    assert IdMapIndex.load(folder / "a.jvim").ids().tolist() == list(range(300))


def test_an_output_of_the_other_ending_has_rows_by_number(folder: Path, ask: Ask) -> None:
    record = ask("index", "build", folder / "rows.npy", "-o", folder / "a.jvi", "--json").record
    assert record["kind"] == "jvi" and TurboIndex.load(folder / "a.jvi").cid == record["cid"]
    told = ask("search", folder / "a.jvi", folder / "q.npy", "-k", 2, "--json").records
    expected = TurboIndex.load(folder / "a.jvi").search(QUERIES, 2)[1]
    assert [query["ids"] for query in told[:-1]] == expected.tolist()
    assert ask("index", "build", folder / "rows.npy", "-o", folder / "b.jvi", "--ids", folder / "ids.npy").code == 2
    assert ask("index", "remove", folder / "a.jvi", folder / "ids.npy").code == 3


def test_the_answers_are_those_of_python_whole_in_json_and_in_the_file(folder: Path, ask: Ask) -> None:
    told = ask("search", folder / "x.jvim", folder / "q.npy", "-k", 12, "-o", folder / "a.npz", "--json").records
    scores, ids = IdMapIndex.load(folder / "x.jvim").search(QUERIES, 12)
    assert [list(map(int, query["ids"])) for query in told[:-1]] == ids.tolist()
    assert [query["scores"] for query in told[:-1]] == scores.tolist()
    from tensor import digest

    answer = told[-1]
    assert (answer["ids_digest"], answer["scores_digest"]) == (digest(ids), digest(scores))
    assert (answer["count"], answer["k"], answer["found"], answer["rows"]) == (7, 12, 12, 300)
    with np.load(folder / "a.npz", allow_pickle=False) as saved:
        assert (saved["ids"] == ids).all() and (saved["scores"] == scores).all()
        assert bytes(saved["cid"]).hex() == answer["cid"]


def test_allowed_and_denied_ids_bound_the_answer(folder: Path, ask: Ask) -> None:
    index = IdMapIndex.load(folder / "x.jvim")
    best = index.search(QUERIES, 1)[1][:, 0]
    np.save(folder / "few.npy", IDS[:20])
    np.save(folder / "best.npy", np.unique(best))
    np.save(folder / "none.npy", IDS[:0])
    told = ask("search", folder / "x.jvim", folder / "q.npy", "--allow", folder / "few.npy", "-k", 50, "--json").records
    assert told[-1]["found"] == 20
    assert {int(i) for query in told[:-1] for i in query["ids"]} == set(IDS[:20].tolist())
    told = ask("search", folder / "x.jvim", folder / "q.npy", "--deny", folder / "best.npy", "--json").records
    assert not {int(i) for query in told[:-1] for i in query["ids"]} & set(best.tolist())
    told = ask("search", folder / "x.jvim", folder / "q.npy", "--allow", folder / "none.npy", "--json").records
    assert told[-1]["found"] == 0 and told[0]["ids"] == []


@pytest.mark.parametrize(("k", "found"), [(0, 0), (1, 1), (300, 300), (10**6, 300), (2**62, 300)])
def test_any_number_of_neighbours_is_answered_with_as_many_as_there_are(
    k: int, found: int, folder: Path, ask: Ask
) -> None:
    told = ask("search", folder / "x.jvim", folder / "q.npy", "-k", k, "--json")
    assert told.code == 0 and told.records[-1]["found"] == found


def test_the_text_shows_ten_queries_and_the_digests(folder: Path, ask: Ask) -> None:
    np.save(folder / "many.npy", np.repeat(QUERIES, 2, axis=0))
    told = ask("search", folder / "x.jvim", folder / "many.npy")
    lines = told.out.splitlines()
    assert [line.split(":")[0] for line in lines[:10]] == [f"query {i}" for i in range(10)]
    assert lines[0].endswith(" …") and lines[0].count("(") == 5
    assert lines[10] == "and 4 more queries: -o ANSWER.npz keeps them all"
    assert lines[11] == "answer  14 queries, 10 of 300 rows each"
    assert told.err == ""


def test_batches_leave_no_trace_in_the_answers(folder: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    from droveway.commands import search

    whole = ask("search", folder / "x.jvim", folder / "q.npy", "--json").records[-1]
    monkeypatch.setattr(search, "BLOCK_BYTES", 1)
    assert ask("search", folder / "x.jvim", folder / "q.npy", "--json").records[-1] == whole


def test_no_queries_are_answered_with_nothing(folder: Path, ask: Ask) -> None:
    np.save(folder / "none.npy", QUERIES[:0])
    told = ask("search", folder / "x.jvim", folder / "none.npy", "--json")
    assert (told.code, told.record["count"], told.record["found"]) == (0, 0, 10)


def test_rows_are_added_replaced_and_removed_whole(folder: Path, ask: Ask) -> None:
    before = IdMapIndex.load(folder / "x.jvim")
    np.save(folder / "more.npy", ROWS[:3] * np.float32(2))
    np.save(folder / "new.npy", np.uint64([1, 2, 2**64 - 1]))
    np.save(folder / "half.npy", np.uint64([1, int(IDS[0]), 3]))
    added = ask("index", "add", folder / "x.jvim", folder / "more.npy", "--ids", folder / "new.npy", "--json").record
    assert (added["added"], added["rows"]) == (3, 303)
    told = ask("index", "add", folder / "x.jvim", folder / "more.npy", "--ids", folder / "half.npy")
    assert told.code == 3 and told.err.startswith(f"error: {folder / 'half.npy'}: ids[0] = 1 is in the index already")
    assert IdMapIndex.load(folder / "x.jvim").cid == added["cid"]
    options = ("--ids", folder / "half.npy", "--upsert", "--json")
    assert ask("index", "add", folder / "x.jvim", folder / "more.npy", *options).record["added"] == 1
    np.save(folder / "gone.npy", np.uint64([1, 2, 3, 2**64 - 1]))
    removed = ask("index", "remove", folder / "x.jvim", folder / "gone.npy", "--json").record
    assert (removed["removed"], removed["rows"]) == (4, 300)
    assert set(IdMapIndex.load(folder / "x.jvim").ids().tolist()) == set(before.ids().tolist())
    told = ask("index", "remove", folder / "x.jvim", folder / "gone.npy")
    assert (told.code, told.err) == (3, f"error: {folder / 'gone.npy'}: no row has id 1\n")


@pytest.mark.parametrize("word", ["add", "remove"])
def test_what_another_command_did_meanwhile_is_not_undone(
    word: str, folder: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    from droveway import npy_file

    read, other = npy_file.read_ids, IdMapIndex(24, metric="cosine", seed=5)

    def read_late(path: Path, *, once: bool = False) -> Any:
        other.save(folder / "x.jvim")
        return read(path, once=once)

    np.save(folder / "new.npy", np.arange(300, dtype=np.uint64))
    arguments = {"add": (folder / "rows.npy", "--ids", folder / "new.npy"), "remove": (folder / "ids.npy",)}[word]
    monkeypatch.setattr(npy_file, "read_ids", read_late)
    told = ask("index", word, folder / "x.jvim", *arguments)
    assert (told.code, told.err) == (
        2, f"error: {folder / 'x.jvim'}: another command changed it meanwhile: nothing was written\n"
        "hint: run this command again\n",
    )  # fmt: skip
    assert IdMapIndex.load(folder / "x.jvim").cid == other.cid


def test_rows_are_added_to_an_index_without_ids(folder: Path, ask: Ask) -> None:
    ask("index", "build", folder / "rows.npy", "-o", folder / "a.jvi")
    assert ask("index", "add", folder / "a.jvi", folder / "q.npy", "--json").record["rows"] == 307
    told = ask("index", "add", folder / "a.jvi", folder / "q.npy", "--ids", folder / "ids.npy")
    assert (told.code, told.err) == (
        2, f"error: {folder / 'a.jvi'}: the rows of a .jvi go by number: expected neither --ids nor --upsert\n",
    )  # fmt: skip
    told = ask("index", "add", folder / "x.jvim", folder / "q.npy")
    first, hint, end = told.err.split("\n")
    assert (told.code, first, end) == (
        2, f"error: {folder / 'x.jvim'}: new rows need ids: expected --ids F, uint64[n] in a .npy file", "",
    )  # fmt: skip
    subprocess.run(hint.removeprefix("hint: ").replace("python", sys.executable, 1), shell=True, check=True)
    before = IdMapIndex.load(folder / "x.jvim").ids()
    new = folder / "q.ids.npy"
    assert np.load(new).tolist() == [int(before.max()) + 1 + i for i in range(7)]
    assert ask("index", "add", folder / "x.jvim", folder / "q.npy", "--ids", new, "--json").record["rows"] == 307


def test_a_query_file_of_another_type_is_mended_by_the_hint(folder: Path, ask: Ask) -> None:
    np.save(folder / "f64.npy", QUERIES.astype(np.float64))
    told = ask("search", folder / "x.jvim", folder / "f64.npy")
    assert told.code == 3 and told.out == ""
    error, hint = told.err.splitlines()
    assert error == f"error: {folder / 'f64.npy'}: expected float32[n, d], got float64[7, 24]"
    subprocess.run([sys.executable, *shlex.split(hint.removeprefix("hint: "))[1:]], check=True)
    mended = ask("search", folder / "x.jvim", folder / "f64.mended.npy", "--json").records[-1]
    assert (
        mended["scores_digest"]
        == ask("search", folder / "x.jvim", folder / "q.npy", "--json").records[-1]["scores_digest"]
    )


def mistakes(folder: Path) -> dict[str, tuple[tuple[object, ...], int, str]]:
    """Command lines that are wrong, their exit codes, and how their errors begin."""
    x, q, rows, ids = (folder / name for name in ("x.jvim", "q.npy", "rows.npy", "ids.npy"))
    out = folder / "o.jvim"
    wrong = folder / "wrong.npy"
    return {
        "arguments swapped": (
            ("search", q, x), 3,
            f"{q}: expected an index (.jvim or .jvi), got a .npy file\n"
            f"hint: the index comes first: droveway search {x} {q}\n",
        ),
        "an array for an index": (
            ("search", rows, q), 3,
            f"{rows}: expected an index (.jvim or .jvi), got a .npy file\n"
            f"hint: droveway index build {rows} -o X.jvim makes an index of vectors\n",
        ),
        "another dimension": (
            ("search", x, wrong), 3,
            f"{wrong}: expected float32[n, 24] as the rows of {x} have 24 numbers, got float32[2, 25]\n",
        ),
        "rows of another dimension": (
            ("index", "add", x, wrong, "--ids", ids), 3,
            f"{wrong}: expected float32[n, 24] as the rows of {x} have 24 numbers, got float32[2, 25]\n",
        ),
        "a folder for an index": (("search", folder, q), 3, f"{folder}: expected to read it, got: is a directory\n"),
        "a folder for queries": (("search", x, folder), 3, f"{folder}: expected to read it, got: is a directory\n"),
        "no such index": (
            ("search", folder / "no.jvim", q), 3, f"{folder / 'no.jvim'}: expected to read it, got: no such file",
        ),
        "a scene for an index": (
            ("search", folder / "s.ply", q), 3,
            f"{folder / 's.ply'}: expected an index (.jvim or .jvi), got a scene (.ply)\n",
        ),
        "an empty file for an index": (
            ("search", folder / "e.jvim", q), 3,
            f"{folder / 'e.jvim'}: expected an index (.jvim or .jvi), got an empty file\n",
        ),
        "an empty file for queries": (
            ("search", x, folder / "e.jvim"), 3,
            f"{folder / 'e.jvim'}: expected a .npy file of float32[n, d] vectors, got an empty file\n",
        ),
        "an unknown id allowed": (
            ("search", x, q, "--allow", folder / "unknown.npy"), 3, f"{folder / 'unknown.npy'}: no row has id 5\n",
        ),
        "an unknown id denied": (
            ("search", x, q, "--allow", ids, "--deny", folder / "unknown.npy"), 3,
            f"{folder / 'unknown.npy'}: no row has id 5\n",
        ),
        "vectors for ids": (("search", x, q, "--allow", rows), 3, f"{rows}: expected uint64[n], got float32[300, 24]"),
        "ids for vectors": (("index", "build", ids, "-o", out), 3, f"{ids}: expected float32[n, d], got uint64[300]\n"),
        "too few ids": (
            ("index", "build", rows, "-o", out, "--ids", folder / "unknown.npy"), 3,
            f"{folder / 'unknown.npy'}: expected 300 ids, one for each row of {rows}, got 1\n",
        ),
        "an id twice": (
            ("index", "build", wrong, "-o", out, "--ids", folder / "twice.npy"), 3,
            f"{folder / 'twice.npy'}: expected each id once, got 4 in rows 0 and 1\n",
        ),
        "a NaN": (
            ("index", "build", folder / "nan.npy", "-o", out), 3,
            f"{folder / 'nan.npy'}: row 299, column 3: expected a number below 1e16, got nan\n",
        ),
        "rows without numbers": (("index", "build", folder / "thin.npy", "-o", out), 3, f"{folder / 'thin.npy'}: "),
        "rows of too many numbers": (("index", "build", folder / "wide.npy", "-o", out), 3, f"{folder / 'wide.npy'}: "),
        "an ending of something else": (
            ("index", "build", rows, "-o", folder / "o.faiss"), 2,
            f"{folder / 'o.faiss'}: expected an output that ends in .jvim or .jvi, got '.faiss'\n",
        ),
        "a folder that is not there": (
            ("index", "build", rows, "-o", folder / "no" / "o.jvim"), 2,
            f"{folder / 'no' / 'o.jvim'}: expected the folder {folder / 'no'} to exist\n"
            f"hint: mkdir -p {folder / 'no'}\n",
        ),
        "an answer of another kind": (
            ("search", x, q, "-o", folder / "a.csv"), 2,
            f"{folder / 'a.csv'}: expected an output that ends in .npz, got '.csv'\n",
        ),
        "an id that is there": (
            ("index", "add", x, folder / "one.npy", "--ids", folder / "known.npy"), 3,
            f"{folder / 'known.npy'}: ids[0] = {2**60} is in the index already, nothing was added\n"
            "hint: --upsert replaces the rows that are there\n",
        ),
        "ids of a file without any": (
            ("index", "remove", folder / "x.jvi", ids), 3,
            f"{folder / 'x.jvi'}: expected an index with ids (.jvim), got one without (.jvi)\n"
            "hint: droveway index build VECTORS.npy -o X.jvim makes one\n",
        ),
        "an answer over the index": (
            ("search", folder / "x.npz", q, "-o", folder / "x.npz"), 2,
            f"{folder / 'x.npz'}: expected another file than the input\nhint: choose another output\n",
        ),
        "an answer over the allowed ids": (
            ("search", x, q, "--allow", folder / "a.npz", "-o", folder / "a.npz"), 2,
            f"{folder / 'a.npz'}: expected another file than the input\n",
        ),
        "an index over its ids": (
            ("index", "build", rows, "--ids", folder / "i.jvim", "-o", folder / "i.jvim"), 2,
            f"{folder / 'i.jvim'}: expected another file than the input\n",
        ),
        "a negative k": (("search", x, q, "-k", -1), 2, "Invalid value for '-k': -1 is not in the range x>=0.\n"),
        "bits of a later version": (
            ("index", "build", rows, "-o", out, "--bits", 2), 2, "--bits: this version has 4 bits a coordinate, got 2",
        ),
        "no word after index": (("index",), 2, "expected one of build, info, add, remove after 'index'\n"),
        "another word after index": (
            ("index", "make"), 2, "there is no command 'index make'; expected one of build, info, add, remove\n",
        ),
    }  # fmt: skip


@pytest.mark.parametrize("case", mistakes(Path()))
def test_a_mistake_is_named_and_leaves_everything_as_it_was(case: str, folder: Path, ask: Ask) -> None:
    np.save(folder / "wrong.npy", np.ones((2, 25), np.float32))
    np.save(folder / "unknown.npy", np.uint64([5]))
    np.save(folder / "twice.npy", np.uint64([4, 4]))
    np.save(folder / "thin.npy", np.ones((4, 0), np.float32))
    np.save(folder / "wide.npy", np.ones((1, 16385), np.float32))
    nan = ROWS.copy()
    nan[299, 3] = np.nan
    np.save(folder / "nan.npy", nan)
    (folder / "s.ply").write_bytes(b"ply\nformat binary_little_endian 1.0\n")
    (folder / "e.jvim").write_bytes(b"")
    np.save(folder / "one.npy", ROWS[:1])
    np.save(folder / "known.npy", IDS[:1])
    TurboIndex(3).save(folder / "x.jvi")
    for copy, name in (("x.npz", "x.jvim"), ("a.npz", "ids.npy"), ("i.jvim", "ids.npy")):
        (folder / copy).write_bytes((folder / name).read_bytes())
    before = {path: path.read_bytes() for path in folder.iterdir()}
    arguments, code, words = mistakes(folder)[case]
    told = ask(*arguments)
    assert (told.code, told.out) == (code, "")
    assert told.err.startswith(f"error: {words}"), told.err
    assert "Traceback" not in told.err
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_a_damaged_index_is_refused_by_every_command_with_its_place(folder: Path, ask: Ask) -> None:
    data = bytearray((folder / "x.jvim").read_bytes())
    for place, field in ((12, "padded dim"), (len(data) - 40, "hash table"), (400, "block")):
        changed = data.copy()
        changed[place] ^= 1
        (folder / "x.jvim").write_bytes(bytes(changed))
        for command in (
            ("search", folder / "x.jvim", folder / "q.npy"),
            ("info", folder / "x.jvim"),
            ("index", "info", folder / "x.jvim"),
            ("index", "add", folder / "x.jvim", folder / "q.npy", "--ids", folder / "ids.npy"),
            ("index", "remove", folder / "x.jvim", folder / "ids.npy"),
        ):
            told = ask(*command)
            assert (told.code, told.out) == (3, ""), field
            assert told.err.startswith(f"error: {folder / 'x.jvim'}: offset ")
        assert (folder / "x.jvim").read_bytes() == bytes(changed)
    assert listing(folder) == START
    for change in (data[:-1], data + b"\0", data[:200]):
        (folder / "x.jvim").write_bytes(bytes(change))
        assert ask("search", folder / "x.jvim", folder / "q.npy").code == 3


def test_pipes_are_refused_and_not_waited_for(folder: Path, ask: Ask) -> None:
    os.mkfifo(folder / "pipe")
    for command in (("search", folder / "pipe", folder / "q.npy"), ("search", folder / "x.jvim", folder / "pipe")):
        told = ask(*command)
        assert told.code == 3 and "is not a regular file" in told.err


def test_a_full_disk_is_exit_4_and_leaves_the_old_index(
    folder: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    import errno

    from vector import index_file

    def full(descriptor: int, data: memoryview) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(index_file, "write_all", full)
    np.save(folder / "one.npy", IDS[:1])
    before = (folder / "x.jvim").read_bytes()
    told = ask("index", "remove", folder / "x.jvim", folder / "one.npy")
    assert told.code == 4, told.err
    assert told.err.startswith(f"error: {folder / 'x.jvim'}: ") and "o space left on device" in told.err
    assert (folder / "x.jvim").read_bytes() == before and listing(folder) == sorted([*START, "one.npy"])


def test_the_moments_of_a_run_are_searched_by_their_ticks(folder: Path, ask: Ask, yard_run: Path) -> None:
    record = ask("index", "build", yard_run, "-o", folder / "m.jvim", "--json").record
    assert (record["rows"], record["dim"], record["metric"]) == (30, 128, "cosine")
    assert IdMapIndex.load(folder / "m.jvim").ids().tolist() == list(range(30))
    assert ask("index", "build", yard_run, "-o", folder / "n.jvim", "--ids", folder / "ids.npy").code == 2
    assert ask("index", "build", folder, "-o", folder / "n.jvim").code == 3


def test_real_words_are_found_by_their_neighbours(data: Callable[[str], Path], ask: Ask, tmp_path: Path) -> None:
    from vector import exact_search, recall_at_k

    words = np.load(data("embeddings/glove100_10k_sample.npy"))
    np.save(tmp_path / "rows.npy", words[:-200])
    np.save(tmp_path / "q.npy", words[-200:])
    ask("index", "build", tmp_path / "rows.npy", "-o", tmp_path / "x.jvim")
    assert ask("search", tmp_path / "x.jvim", tmp_path / "q.npy", "-o", tmp_path / "a.npz").code == 0
    truth = exact_search(words[:-200], words[-200:], 10)[1]
    with np.load(tmp_path / "a.npz") as answer:
        assert recall_at_k(answer["ids"], truth, 10) >= 0.87
