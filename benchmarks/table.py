"""The tables of README and docs/benchmarks.md from benchmarks/results: `python benchmarks/table.py [--write]`.

Without --write it prints them. No line is left out because the peer was faster.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
START, END = "<!-- written by benchmarks/table.py -->\n", "<!-- end -->\n"
Line = dict[str, Any]
SPEEDS = ("plan n=", "auction uniform", "auction league")


def lines(bench: str) -> list[Line]:
    """The saved lines of one benchmark without the header; none when it was not saved."""
    path = ROOT / "benchmarks" / "results" / f"{bench}.jsonl"
    if not path.exists():
        return []
    return [line for line in map(json.loads, path.read_text().splitlines()) if "case" in line]


def kernels() -> Iterator[str]:
    """Functions by rows, peers by columns; several sizes side by side."""
    rows: dict[str, dict[tuple[str, str], Line]] = {}
    for line in [*lines("elementary"), *lines("sum"), *lines("gemm")]:
        found = re.fullmatch(r"(.*) n=(\d+) \w+", line["case"])
        if found is None or line["peer_name"].startswith("our "):
            continue
        name, size = found.groups()
        name = f"matmul {name}" if line["bench"] == "gemm" else name
        rows.setdefault(name, {})[size, line["peer_name"].split(" ")[0]] = line
    yield "| one million elements, or n | ours | ratio to torch | ratio to numpy |\n|---|---|---|---|\n"
    for name, cells in rows.items():
        sizes = list(dict.fromkeys(size for size, _ in cells))
        title = name if sizes == ["1000000"] else f"{name}, n = {', '.join(map(short, sizes))}"
        ours = [next(line for (at, _), line in cells.items() if at == size) for size in sizes]
        speeds = ", ".join(speed(line["ours"], line["unit"]) for line in ours)
        unit = "GFLOP/s" if ours[0]["unit"] == "GFLOP/s" else "10⁹ elements/s"
        ratios = [
            ", ".join(f"{cells[size, peer]['ratio']:.2f}" for size in sizes if (size, peer) in cells) or "–"
            for peer in ("torch", "numpy")
        ]
        yield f"| {title} | {speeds} {unit} | {ratios[0]} | {ratios[1]} |\n"


def short(size: str) -> str:
    """1000000 as 1 M, 1000 as 1 k, others as they are."""
    for zeros, letter in ((6, "M"), (3, "k")):
        if size.endswith("0" * zeros):
            return f"{size[:-zeros]} {letter}"
    return size


def speed(value: float, unit: str) -> str:
    """Three digits at most: millions of elements as thousands of millions, GFLOP as they are."""
    return f"{value / 1000:.2g}" if unit == "M elements/s" else f"{value:.0f}"


def fleets() -> Iterator[str]:
    """Ticks a second: one fleet a row."""
    columns = ("plan", "tick", "tick, ledger", "audit")
    rows: dict[str, dict[str, Line]] = {}
    for line in lines("simulate"):
        if line["unit"] != "ticks/s":
            continue
        name, _, what = line["case"].partition(", ")
        if name.startswith("audit"):
            name, what = list(rows)[-1], "audit"
        elif what not in columns:
            name, what = (line["case"] if what != "ledger" else name), "tick, ledger"
        rows.setdefault(name, {})[what] = line
    if rows:
        yield "| ticks a second, steady run | plan | whole tick | with its ledger | `verify --resimulate` |\n"
        yield "|---|---|---|---|---|\n"
        for name, cells in rows.items():
            values = (f"{cells[column]['ours']:.0f}" if column in cells else "–" for column in columns)
            yield f"| {name} | {' | '.join(values)} |\n"


def planning() -> Iterator[str]:
    """What a user asks first: plans in which every agent is free to be planned, wall clock, and the auction."""
    kept = (line for line in lines("plan") if line["unit"] == "ticks/s" or line["case"].startswith(SPEEDS))
    yield from cases("planning (all agents free)", kept)


def planning_in_full() -> Iterator[str]:
    """Planners against the optimum and at scale: one case a row."""
    left_out = {"ticks/CPU-s", "equal digests"}
    yield from cases("planning", (line for line in lines("plan") if line["unit"] not in left_out))


def fleets_in_full() -> Iterator[str]:
    """Fields, motion, paths, audits, digests: one case a row."""
    yield from cases("fleets", lines("fleet"))


def ledger() -> Iterator[str]:
    """Appending, reading, proving and auditing: one case a row, each in one unit."""
    yield from cases("ledger", of_ledgers())


def ledger_in_short() -> Iterator[str]:
    """What a user asks first."""
    kept = (
        "append, 1000 a commit, sync=fsync",
        "verified replay",
        "inclusion",
        "64 producers, sync",
        "audit of",
        "memory",
    )
    left_out = ("recorder", "file order")
    for_users = (line for line in of_ledgers() if line["case"].startswith(kept) and "alone" not in line["case"])
    yield from cases("ledger", (line for line in for_users if not any(word in line["peer_name"] for word in left_out)))


def of_ledgers() -> list[Line]:
    """The lines about ledgers, each case in one unit."""
    kept = [line for line in lines("ledger") if line["unit"] != "MB/s"]
    kept += lines("group_commit")
    return kept + [line for line in lines("audit") if line["unit"] not in {"MB/s", "events/s"}]


def training() -> Iterator[str]:
    """Whole steps of training."""
    yield from cases("steps of training (less is better)", lines("train_step"))


def engine() -> Iterator[str]:
    """Operations on tensors: one case a row."""
    yield from cases("operations on tensors", lines("tensor"))


def cases(title: str, kept: Iterable[Line]) -> Iterator[str]:
    """A table of one line a row."""
    for i, line in enumerate(kept):
        if i == 0:
            yield f"| {title} | ours | peer | ratio |\n|---|---|---|---|\n"
        ours, peer = (f"{line[x]:,.0f}" if line[x] >= 100 else f"{line[x]:.3g}" for x in ("ours", "peer"))
        case = line["case"].removesuffix(" v4")
        yield f"| {case} | {ours} {line['unit']} | {line['peer_name']}: {peer} | {line['ratio']:.2f} |\n"


def search() -> Iterator[str]:
    """One quantity a row, one index a column; exact search below, for its peers are others."""
    rows: dict[str, list[Line]] = {}
    for line in lines("search"):
        if line["peer_name"] != "limit":
            rows.setdefault(line["case"], []).append(line)
    exact = rows.pop("exact_search, batch of 100", [])
    if rows:
        peers = list(dict.fromkeys(line["peer_name"] for found in rows.values() for line in found))
        yield f"| 100,000 × 100 word vectors at 4 bits | ours | {' | '.join(peers)} |\n"
        yield f"|---|---|{'---|' * len(peers)}\n"
        for case, found in rows.items():
            unit = "" if found[0]["unit"] == "share" else f", {found[0]['unit']}"
            cells = [number(found[0]["ours"]), *(f"{number(line['peer'])} ({line['ratio']:.2f})" for line in found)]
            yield f"| {case}{unit} | {' | '.join(cells)} |\n"
    for line in exact:
        name = line["peer_name"]
        if line is exact[0]:
            yield "\n| 100,000 × 100 word vectors, exactly | ours, float64 | peer | ratio |\n|---|---|---|---|\n"
        ours, peer = number(line["ours"]), number(line["peer"])
        yield f"| {line['case']}, {line['unit']} | {ours} | {name}: {peer} | {line['ratio']:.2f} |\n"


def render() -> Iterator[str]:
    """Frames a second."""
    kept = [line for line in lines("render") if line["unit"] == "frames/s"]
    if kept:
        yield "| drawing 1280 × 720, frames a second | ours | peer | ratio |\n|---|---|---|---|\n"
        for line in kept:
            ours, peer = number(line["ours"]), number(line["peer"])
            yield f"| {line['case']} | {ours} | {line['peer_name']}: {peer} | {line['ratio']:.2f} |\n"


def stages() -> Iterator[str]:
    """Milliseconds of a picture: one scene a row, one step a column."""
    rows: dict[str, dict[str, Line]] = {}
    for line in lines("render"):
        if line["unit"] == "ms":
            scene, _, step = line["case"].rpartition(", ")
            rows.setdefault(scene, {})[step] = line
    for scene, steps in rows.items():
        if scene == next(iter(rows)):
            yield f"| one picture of 1280 × 720, ms | {' | '.join(steps)} | all |\n|---|{'---|' * (len(steps) + 1)}\n"
        whole = next(iter(steps.values()))["peer"]
        cells = (number(line["ours"]) for line in steps.values())
        yield f"| {scene} | {' | '.join(cells)} | {number(whole)} |\n"


def pictures() -> Iterator[str]:
    """How near our pictures are to others of the same view."""
    for at, line in enumerate(line for line in lines("render") if line["unit"] == "dB"):
        if at == 0:
            yield "| picture | dB | at least |\n|---|---|---|\n"
        yield f"| {line['case']} | {number(line['ours'])} | {number(line['peer'])} |\n"


def number(value: float) -> str:
    """Three digits, thousands apart."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def limits() -> Iterator[str]:
    """Everything else that has a limit of our own."""
    kept = [*lines("footprint"), *(line for line in lines("simulate") if line["unit"] in {"share", "zones"})]
    kept += [line for line in lines("search") if line["peer_name"] == "limit"]
    if kept:
        yield "| what | measured | limit |\n|---|---|---|\n"
        for line in kept:
            bound = "at most" if line["better"] == "lower" else "at least"
            unit = line["unit"]
            share = unit == "share"
            ours, peer = (f"{line[x]:.0%}" if share else f"{line[x]:.3g}" for x in ("ours", "peer"))
            yield f"| {line['case']} | {ours}{'' if share else f' {unit}'} | {bound} {peer} |\n"


PAGES = {
    "README.md": (fleets, planning, ledger_in_short, search, render, training, limits),
    "docs/benchmarks.md": (kernels, planning_in_full, fleets_in_full, ledger, stages, pictures, engine),
}


def tables(page: str) -> str:
    """All tables of a page, as they stand in it."""
    return "\n".join("".join(part) for part in (list(make()) for make in PAGES[page]) if part)


def main() -> None:
    """Print the tables, or put them between the marks in the pages."""
    for page in PAGES:
        if sys.argv[1:] != ["--write"]:
            sys.stdout.write(f"{page}\n\n{tables(page)}\n")
            continue
        before, _, rest = (ROOT / page).read_text().partition(START)
        after = rest.partition(END)[2]
        (ROOT / page).write_text(before + START + tables(page) + END + after)


if __name__ == "__main__":
    main()
