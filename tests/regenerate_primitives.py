"""Writes docs/primitives.md from the outcomes of its tests: `python tests/regenerate_primitives.py`.

tests/tensor/test_primitives.py runs once for each instruction set that this machine has; what did not run is 'open'.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
try:
    import composite_checks
finally:
    sys.path.pop(0)

from tensor import _kernels
from tensor.primitives.primitive import Primitive
from tensor.primitives.registry import REGISTRY, all_rows, row

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "primitives.md"
GOLDEN = ROOT / "tests" / "golden.toml"
RECORD = ROOT / "tests" / "arm64.toml"
NAMES = "tessera/tessera_primitives.csv"

CATEGORIES = (
    "structural",
    "elementwise",
    "special",
    "complex",
    "comparison",
    "logical",
    "bitwise",
    "reduction",
    "cumulative",
    "normalization",
    "indexing",
    "sorting",
    "contraction",
    "convolution",
    "pooling",
    "linalg",
    "spectral",
    "sparse",
    "random",
    "optimizer",
    "fusion",
)
COLUMNS = (
    "primitive",
    "v3",
    "v4",
    "arm64",
    "ref",
    "gradient",
    "second",
    "tangent",
    "batching",
    "oracle",
    "cuda",
    "webgpu",
    "npu",
    "meaning",
)

HEAD = """# Primitives

Written by `python tests/regenerate_primitives.py` from the outcomes of `tests/tensor/test_primitives.py`, and for arm64 of
`tests/arm64.py`; a test compares this page with what the tests say. Nothing in the tables is typed by hand.

| column | what a `yes` says |
|---|---|
| v3, v4 | the kernel for this instruction set ran and gave the bits of the twin, for every element type, on contiguous, strided, reversed and permuted inputs; `view`: nothing is computed, the result shares its input's storage; `twin`: there is no kernel, the twin runs; `open`: it did not run |
| arm64 | the same under emulation: `python tests/arm64.py --record` wrote the digest of the row's results to `tests/arm64.toml`, and it is the one that the twins give now (`tests/golden.toml`); `open`: it did not run since the row changed |
| ref | the row ran on the test device of the twins |
| gradient | the gradient agrees with finite differences in float64 (and complex128) |
| second | so does the gradient of the gradient |
| tangent | forward mode agrees with reverse mode |
| batching | vmap equals a loop over the elements, bit for bit; `loop`: because it is one, the row has no rule |
| oracle | values agree with an independent implementation |
| cuda, webgpu, npu | kernels for these devices |

`–`: the question does not arise: integers and booleans have no gradient, a row without a check of values by another
implementation has no oracle here (the twin defines it, and other tests compare with numpy, scipy and mpmath).
"""  # noqa: E501

# Names of the mission that go by another name here: a row, or the public function or class.
ELSEWHERE = {
    "absolute": "abs",
    "adam": "tensor.optim.AdamW",
    "adamw": "tensor.optim.AdamW",
    "adaptive_pool": "tensor.adaptive_avg_pool2d",
    "amax": "max",
    "amin": "min",
    "avg_pool": "average_pool",
    "batched_gemm": "matmul",
    "broadcast": "expand",
    "clamp": "clip",
    "clip_grad_norm": "tensor.optim.clip_grad_norm_",
    "complex_abs": "abs",
    "complex_arg": "angle",
    "complex_conjugate": "conj",
    "complex_div": "div",
    "complex_exp": "exp",
    "complex_log": "log",
    "complex_mul": "mul",
    "complex_pow": "pow",
    "complex_sqrt": "sqrt",
    "cross_entropy_loss": "cross_entropy",
    "axis_name": "tensor.vmap",
    "custom_lowering": "tensor.autograd.custom_primitive",
    "custom_batching": "tensor.autograd.custom_primitive",
    "custom_call": "tensor.autograd.custom_primitive",
    "ddpm_noise_pred_loss": "tensor.losses.mse_loss",
    "depthwise_conv1d": "tensor.conv1d",
    "fused_epilogue": "affine",
    "gemm": "matmul",
    "label_smoothed_cross_entropy": "cross_entropy",
    "latent_kv_compress": "matmul",
    "latent_kv_expand_k": "matmul",
    "latent_kv_expand_v": "matmul",
    "linear_general": "affine",
    "load_state": "tensor.load",
    "min_pool": "tensor.min_pool2d",
    "momentum": "tensor.optim.SGD",
    "nesterov": "tensor.optim.SGD",
    "persistent_cd_loss": "tensor.losses.contrastive_divergence_loss",
    "quantized_matmul": "quantised_matmul",
    "remat": "tensor.autograd.checkpoint",
    "rmsnorm": "rms_norm",
    "dropout": "tensor.random.dropout",
    "rng_bernoulli": "tensor.random.Key.bernoulli",
    "rng_categorical": "tensor.random.categorical",
    "rng_fold_in": "tensor.random.fold_in",
    "rng_key": "tensor.random.Key",
    "rng_normal": "tensor.random.Key.normal",
    "rng_permutation": "tensor.random.Key.permutation",
    "rng_philox_normal": "tensor.random.Key.normal",
    "rng_philox_uniform": "tensor.random.Key.uniform",
    "rng_randint": "tensor.random.Key.randint",
    "rng_split": "tensor.random.Key.split",
    "rng_truncated_normal": "tensor.random.truncated_normal",
    "rng_uniform": "tensor.random.Key.uniform",
    "safetensors_export": "tensor.io.write_safetensors",
    "save_state": "tensor.save",
    "select": "index",
    "sgd": "tensor.optim.SGD",
    "sigmoid_safe": "sigmoid",
    "slice": "index",
    "softmax_safe": "softmax",
    "spectral_filter": "mul",
    "transpose": "permute",
    "unsqueeze": "tensor.expand_dims",
    "view": "tensor.Tensor.view",
}
BEYOND_PREFIXES = ("game_", "mor_", "spec_accept")
BEYOND = {"target_verify", "gguf_export", "stablehlo_export", "pmap"}
PLACES = (
    "tensor",
    "tensor.linalg",
    "tensor.fft",
    "tensor.spectral",
    "tensor.conformal",
    "tensor.quant",
    "tensor.losses",
    "tensor.schedules",
    "tensor.updates",
    "tensor.autograd",
    "tensor.random",
    "tensor.optim",
    "tensor.sparse",
)


def order(primitive: Primitive) -> tuple[int, str, str]:
    """By category in the order of the page, then by name."""
    known = CATEGORIES.index(primitive.category) if primitive.category in CATEGORIES else len(CATEGORIES)
    return known, primitive.category, primitive.name


def cells(primitive: Primitive, outcomes: dict[str, dict[str, str]], *, only: str | None = None) -> dict[str, str]:
    """The cells of one row from {instruction set: {check: outcome}}; with `only` those that this run decides."""
    found: dict[str, str] = {}
    for isa, column in (("v3", "v3"), ("v4", "v4"), ("neon", "arm64")):
        if isa in outcomes:
            found[column] = _kernel_cell(primitive, outcomes[isa])
        elif isa == "neon":
            found[column] = emulated_cell(primitive, read_rows(RECORD), read_rows(GOLDEN))
        elif only is None:
            found[column] = "open"
    one = next(iter(outcomes.values()))
    found["ref"] = one["view"] if primitive.view is not None else one["twin"]
    for check in ("gradient", "second", "tangent", "batching", "oracle"):
        found[check] = one[check] if one[check] in ("yes", "failed") else "–"
    if found["batching"] == "yes" and primitive.batch is None:
        found["batching"] = "loop"
    return found


@cache
def read_rows(path: Path) -> dict[str, str]:
    """Digests of rows by name; none where there is no such file."""
    rows: dict[str, str] = tomllib.loads(path.read_text())["rows"] if path.exists() else {}
    return rows


def emulated_cell(primitive: Primitive, recorded: dict[str, str], golden: dict[str, str]) -> str:
    """The cell of arm64 where this machine is none: what was recorded counts while the row's digest is the same."""
    digest = recorded.get(primitive.name)
    if digest is None or digest != golden.get(primitive.name):
        return "open"
    return {"view": "view", "twin": "twin"}.get(primitive.devices["cpu"], "yes")


def _kernel_cell(primitive: Primitive, outcome: dict[str, str]) -> str:
    if primitive.view is not None:
        return "view" if outcome["view"] == "yes" else "failed"
    if outcome["twin"] == "yes" and primitive.devices["cpu"] == "twin":
        return "twin"
    return outcome["twin"]


def read_page(path: Path) -> dict[str, dict[str, str]]:
    """{primitive: {column: cell}}, in the order of the page."""
    table: dict[str, dict[str, str]] = {}
    for line in path.read_text().splitlines():
        cut = [cell.strip() for cell in line.replace("\\|", "∣").strip("|").split("|")]
        if line.startswith("| `") and len(cut) == len(COLUMNS):
            table[cut[0].strip("`")] = dict(zip(COLUMNS, cut, strict=True))
    return table


def page(outcomes: dict[str, dict[str, dict[str, str]]], names: Path) -> str:
    """The whole page from {instruction set: {primitive: {check: outcome}}}."""
    lines = [HEAD]
    rows = sorted(all_rows(), key=order)
    for category in dict.fromkeys(r.category for r in rows):
        lines += [f"\n## {category.replace('_', ' ').capitalize()}\n", "| " + " | ".join(COLUMNS) + " |"]
        lines.append("|" + "---|" * len(COLUMNS))
        for r in rows:
            if r.category != category:
                continue
            mine = {isa: found[r.name] for isa, found in outcomes.items()}
            values = {**cells(r, mine), **{d: r.devices[d] for d in ("cuda", "webgpu", "npu")}}
            values |= {"primitive": f"`{r.name}`", "meaning": r.summary.replace("|", "\\|")}
            lines.append("| " + " | ".join(values[c] for c in COLUMNS) + " |")
    return "\n".join(lines) + "\n\n" + functions_section() + "\n" + mission_section(names)


# --- functions that are made of rows ---------------------------------------------------------------------------------

FUNCTIONS = """## Functions made of rows

What the cases of `tests/composite_checks.py` say: values in float64 against numpy, scipy or a closed form; gradients against finite
differences; vmap equal to a loop, the device of the twins equal to the kernels, a captured function equal to the function, bit for bit.
`–`: the question does not arise.

| function | values | gradient | batching | ref | captured |
|---|---|---|---|---|---|
"""  # noqa: E501


def functions_section() -> str:
    """The table of functions with cases, from running every check on every case."""
    lines = []
    for name, cases in sorted(composite_checks.all_cases().items()):
        cells = " | ".join(composite_checks.outcome(cases, check) for check in composite_checks.CHECKS)
        lines.append(f"| {found_at(name)} | {cells} |\n")
    return FUNCTIONS + "".join(lines)


# --- the names of the mission ----------------------------------------------------------------------------------------


def mission_names(path: Path) -> list[tuple[str, str]]:
    """(name, category) of each."""
    with path.open(newline="") as file:
        return [(entry["name"], entry["category"]) for entry in csv.DictReader(file)]


def found_at(home: str) -> str | None:
    """Where a row or a public name is: "row `add`", "`tensor.linalg.qr`"; None if it isn't there."""
    try:
        return f"row `{row(home).name}`"
    except KeyError:
        pass
    for dotted in [home] if home.startswith("tensor.") else [f"{place}.{home}" for place in PLACES]:
        if callable(_public(dotted)):
            return f"`{dotted}`"
    return None


def _public(dotted: str) -> Any:
    """What a dotted name stands for; a function of the name of its module is the function."""
    first, *rest = dotted.split(".")
    found: Any = import_module(first)
    for k, part in enumerate(rest):
        if not hasattr(found, part):
            try:
                import_module(".".join([first, *rest[: k + 1]]))
            except ImportError:
                return None
        found = getattr(found, part, None)
    return found


def standing(name: str) -> str:
    """Where a name of the mission stands: where it is, 'open', or 'beyond the mission'."""
    if name.startswith(BEYOND_PREFIXES) or name in BEYOND:
        return "beyond the mission"
    return found_at(ELSEWHERE.get(name, name)) or "open"


def mission_section(names: Path) -> str:
    """The table of all names of the mission's checklist."""
    entries = mission_names(names)
    stands = {name: standing(name) for name, _ in entries}
    count = Counter("present" if s not in ("open", "beyond the mission") else s for s in stands.values())
    lines = [
        "## The mission's checklist",
        "",
        f"{len(entries)} names: {count['present']} present, {count['open']} open, "
        f"{count['beyond the mission']} beyond the mission.",
        "",
        "| category | name | where |",
        "|---|---|---|",
    ]
    lines += [
        f"| {category} | {name} | {stands[name]} |" for name, category in sorted(entries, key=lambda e: (e[1], e[0]))
    ]
    return "\n".join(lines) + "\n"


def outcomes_of(isa: str) -> dict[str, dict[str, str]]:
    """Runs the tests of the rows under one instruction set."""
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / "outcomes.json"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "--no-header",
            "-p",
            "no:cacheprovider",
            "-k",
            "the_row_passes",
        ]
        command.append(str(ROOT / "tests" / "tensor" / "test_primitives.py"))
        environment = {**os.environ, "DROVEWAY_ISA": isa, "DROVEWAY_OUTCOMES": str(kept)}
        subprocess.run(command, check=False, cwd=ROOT, env=environment)
        found: dict[str, dict[str, str]] = json.loads(kept.read_text())
    return found


def main() -> None:
    data = Path(os.environ.get("DROVEWAY_DATA", ROOT.parent / "shared" / "data"))
    best = _kernels.isa_best()
    builds = [best] if best == "neon" else ["v3", "v4"][: ["v3", "v4"].index(best) + 1]
    PAGE.write_text(page({isa: outcomes_of(isa) for isa in builds}, data / NAMES))
    print(f"{PAGE.relative_to(ROOT)}: {len(REGISTRY)} primitives under {', '.join(builds)}")


if __name__ == "__main__":
    main()
