"""Every promised name can be imported from where it is promised."""

import ast
import pkgutil
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

PACKAGES = ("tensor", "vector", "splat", "storage", "coord", "droveway")

# What other people's code is written against, for the parts that exist so far: names are added here, never renamed.
PROMISED = {
    "tensor": (
        "BudgetExceeded budget build_info checked digest random "
        "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_max_pool1d adaptive_max_pool2d affine avg_pool1d avg_pool2d "
        "byte_matmul conv1d conv2d conv_transpose1d conv_transpose2d einsum kron matmul matrix_transpose max_pool1d "
        "max_pool2d min_pool1d min_pool2d outer quantised_matmul tensordot vecdot "
        "conv3d dynamic_slice dynamic_update_slice entmax15 factorized_matmul group_norm grouped_gemm instance_norm "
        "moe_swiglu_block online_softmax online_softmax_state pack patchify pixel_shuffle pixel_unshuffle rearrange "
        "reduce rmsnorm_safe rope_merge rope_split score_combine silu_mul soft_top_k softcap softmax_finalize "
        "softmax_merge sparsemax spectral_norm tile_view trigamma unpack vec weight_norm "
        "Device Dtype MemorySpace Tensor arange asarray astype bitcast broadcast_arrays broadcast_shapes broadcast_to "
        "can_cast cat chunk concat empty empty_like expand_dims eye finfo flatten flip from_dlpack full full_like "
        "iinfo isdtype linspace meshgrid moveaxis ones ones_like pad permute_dims repeat reshape roll split squeeze "
        "stack tile tril triu unstack zeros zeros_like bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 "
        "bfloat16 float32 float64 complex64 complex128 e inf nan newaxis pi AxisError DeviceError DtypeError "
        "GradientError ReadOnlyError ShapeError TensorError"
    ),
    "tensor.device": "Device MemorySpace copy_async devices resolve_device to_device to_host",
    "tensor.typed": "Float32 Rank2",
    "tensor.autograd": (
        "associative_scan axis_index axis_size backward checkpoint cond custom_jvp "
        "custom_primitive custom_vjp enable_grad fori_loop grad "
        "grad_enabled gradcheck hessian jvp map no_grad register_pytree_node require_grad scan stop_gradient switch "
        "tree_flatten tree_leaves "
        "tree_map tree_reduce tree_transpose tree_unflatten value_and_grad vjp vmap while_loop zero_grad"
    ),
    "tensor.graph": "Captured Graph LoadedGraph Plan load",
    "tensor.optim": "AdamW Optimizer SGD clip_grad_norm_",
    "tensor.random": (
        "Key Stream bernoulli bits categorical dropout es_low_rank_correction exponential fold_in gumbel "
        "gumbel_softmax masked_categorical normal permutation perturbed_argmax randint split truncated_normal uniform"
    ),
    "tensor.onnx": "Model load",
    "tensor.io": "SafetensorsFile load save",
    "tensor.linalg": (
        "cholesky cholesky_solve cond cross det diagonal eigh eigvalsh inv logdet lu matmul matrix_norm matrix_power "
        "matrix_rank matrix_transpose norm outer pinv qr slogdet solve svd svdvals tensordot trace tri_solve "
        "tridiagonal_solve vecdot vector_norm"
    ),
    "tensor.fft": ("fft fftfreq fftn fftshift hfft ifft ifftn ifftshift ihfft irfft irfftn rfft rfftfreq rfftn"),
    "tensor.spectral": "dct istft spectral_conv stft",
    "tensor.conformal": (
        "check_cauchy_riemann conformal_energy_on_sphere conformal_jacobian cross_ratio dbar dz is_concyclic "
        "laplacian_2d mobius mobius_from_three_points stereographic"
    ),
    "tensor.quant": (
        "CalibrationObserver calibration_observer dequant_grouped_gemm dequant_matmul dequantize_int4 dequantize_int8 "
        "fake_quantize quantize_int4 quantize_int8"
    ),
    "tensor.losses": (
        "asymmetric_bce binary_cross_entropy_loss cispo_policy_loss contrastive_divergence_loss contrastive_loss "
        "cosine_embedding_loss ctc_loss denoising_score_matching_loss focal_loss grpo_policy_loss huber_loss "
        "implicit_score_matching_loss info_nce_loss js_divergence kl_divergence load_balance_loss log_cosh_loss "
        "mae_loss mse_loss normalize_group_advantages nt_xent_loss ppo_policy_loss score_matching_loss seq2seq_loss "
        "smooth_l1_loss triplet_loss vlb_loss wasserstein_distance z_loss"
    ),
    "tensor.schedules": (
        "chained_schedule constant_lr cosine_lr cosine_warmup_lr cyclical_lr inverse_sqrt_lr linear_warmup_lr "
        "polynomial_lr"
    ),
    "tensor.updates": (
        "add_decoupled_weight_decay centralize_grad clip_grad_value ema_update optax_style_chain polyak_avg"
    ),
    "tensor.sparse": "BSR COO CSR bsmm from_scipy sddmm spmm",
    "tensor.elementary": "cos erf exp log pow sin sqrt tanh",
    "tensor.reduction": "dot sum",
    "tensor.product": "matmul",
    "vector": (
        "IdMapIndex TurboIndex VectorError build_info cosine depth_order dot exact_search l2 norm_f32 normalize_f32 "
        "recall_at_k"
    ),
    "splat": "Camera Image RenderSettings Scene SplatError build_info render",
    "storage": (
        "AppendStore Catalog ConsumerCursor Cursor Event Ledger MergedEvent Reader RepairReport Retired RetiredError "
        "build_info common_prefix follow make_store_recovered merge rebuild_rank_sidecar repair_ledger "
        "salvage_ledger verify_ledger "
        "Checkpoint Signer TlogProof VerifierKey Witness cosign read_key write_key "
        "ExportReport PublishedLedger PublishReport open_published read_jsonl verify_published"
    ),
    "storage.canonical": "pack unpack",
    "storage.errors": (
        "CanonicalError EquivocationError EventTooLargeError ForkError IntegrityError LockedError NotALedgerError "
        "ReadOnlyError RollbackError StorageError StorageFullError SyncError"
    ),
    "coord": (
        # the journeys: simulate, audit, plan
        "AgentState DecisionFrame GaussianKernel Obstacle PlanConfig Scenario WorkZone audit build_info plan simulate "
        "Grid Rings explain import_map import_scen open_run "
        # what a scenario may say, and what happens to its fleet
        "EventKind FleetEvent TASK_DTYPE json_schema "
        # moving without a scenario
        "PathFault Paths check_paths first_solution "
        "Neighbours Separation minimum_separation neighbour_counts neighbours straight_step "
        "import_geojson import_lorr LorrImport "
        # frames of one buffer
        "FRAME_DTYPE FrameFault check_chain decode_frames Drift DriftTick FirstOther drift "
        # geometry, field, agents
        "COORD_CELL_KEY_BYTES COORD_CELL_NEIGHBOR_COUNT COORD_UNREACHABLE_TRAVEL_TIME DECISION_FRAME_BYTES "
        "AgentMode AgentReadiness agent_can_travel agent_memory_remaining_ticks agent_memory_valid agent_readiness "
        "agent_stale_ticks distance distance_sq Workspace field_at field_gradient field_raster gaussian_at "
        # zones and candidates
        "CandidateFacts ZoneReadiness candidate_facts candidate_status score_candidate travel_time zone_blocked "
        "zone_idle_ticks zone_readiness "
        # cells
        "CoordCell cell_from_units coord_cell_equal coord_cell_neighbor decode_coord_cell_key encode_coord_cell_key "
        "write_coord_cell_neighbors "
        # planning
        "Assignment AssignmentStats CoordHealth CoordStatus Planner assignment_conflict assignment_ok "
        "assignment_rejected count_assignments_by_status empty_assignment_stats find_assignment_by_agent "
        "find_assignment_by_zone plan_auction plan_exact plan_external plan_greedy plan_swap Replan replan "
        # frames and ledger
        "DecisionLedger decision_frame_total_rows decision_ledger_assignment_rate decision_ledger_conflict_rate "
        "decision_ledger_rejected_rate decision_ledger_rows_per_frame decision_ledger_stale_agent_rate "
        "decision_ledger_tick_span decision_ledger_total_rows "
        # measures
        "CaseResult Metrics Scorer SetSummary Spread Sweep TickMetrics metrics process_pool quality sweep tick_metrics"
    ),
    "coord.stl": "coordination_stl open_field_map open_run open_zone_catalog",
    "coord.fields.features": "fleet_features",
    "coord.simulation.synthetic": "map_text site_text warehouse_cells write_warehouse",
    "vector.synthetic": "mixture",
    "droveway": "__version__",
    "droveway.demo": "audit_run draw_scene render_scene search_moments simulate_fleet",
    "droveway.run_moments": "moments",
    "droveway.run_tracks": "Tracks draw_tracks read_tracks",
    "droveway.run_difference": "Comparison compare",
}
METHODS = {
    ("storage", "Ledger"): (
        "append append_many at checkpoint close consistency cursor cursor_at export flush get head merge open prove "
        "publish scan scan_from"
    ),
    ("storage", "PublishedLedger"): "at close consistency export get head prove rank_of scan",
    ("storage", "Event"): "decode encode",
    ("storage", "Catalog"): "catch_up close delete get get_many open put put_many scan",
    ("storage", "AppendStore"): (
        "append append_and_derive flush flush_with_manifest get_by_id get_by_insertion_rank iter_done iter_err "
        "iter_in_append_order iter_next kind_by_insertion_rank manifest_status"
    ),
    ("vector", "TurboIndex"): "add backend cid load reconstruct remove save search",
    ("vector", "IdMapIndex"): "add backend cid load reconstruct remove save search upsert",
    ("splat", "Scene"): "load save",
    ("splat", "Camera"): "default from_json look_at to_json",
    ("splat", "Image"): "digest save",
    ("tensor", "Tensor"): (
        "T abi_header backward clone contiguous copy_ data_address detach device dtype expand fill_ flatten grad "
        "is_contiguous is_view item itemsize mT memory_space nbytes ndim numpy permute requires_grad requires_grad_ "
        "reshape shape size squeeze strides sum to to_device tolist transpose unsqueeze version view zero_ zero_grad"
    ),
    ("tensor.random", "Key"): "bernoulli bits normal permutation randint seed seeds shape split uniform",
    ("coord", "Scenario"): "load loads to_toml",
    ("coord", "DecisionFrame"): "decode encode",
}
# Attributes of what calls return: fields of a dataclass are no attributes of its class.
ATTRIBUTES = {
    "plan": "assignments explain flags frame gap health input_digest rows stats",
    "audit": "first_divergence ok",
    "budget": "peak_bytes used_bytes",
    "ledger": "mode",
    "receipt": "id rank root size",
}


@pytest.fixture(scope="module")
def returned(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """What the main calls return, by the name of the call or of what it gives."""
    import coord
    import storage
    import tensor

    folder = tmp_path_factory.mktemp("names")
    agents = [coord.AgentState(id=1, x=0.0, y=0.0, speed=1.0, energy=1.0)]
    zones = [coord.WorkZone(id=2, x=3.0, y=0.0)]
    with storage.Ledger.open(folder / "run", sync="os") as ledger, tensor.budget(1 << 20) as budget:
        receipt = ledger.append(storage.Event(producer="p", effect=b"", kind="note.text", sequence=0, tick=0))
    return {
        "plan": coord.plan(agents, zones, [], [], coord.PlanConfig(), now_tick=0),
        "audit": coord.audit(folder / "run"),
        "budget": budget,
        "ledger": ledger,
        "receipt": receipt,
    }


@pytest.mark.parametrize("call", ATTRIBUTES)
def test_promised_attributes_are_there(call: str, returned: dict[str, object]) -> None:
    assert [name for name in ATTRIBUTES[call].split() if not hasattr(returned[call], name)] == []


@pytest.mark.parametrize("module", PROMISED)
def test_promised_names_are_there(module: str) -> None:
    found = import_module(module)
    missing = [name for name in PROMISED[module].split() if not hasattr(found, name)]
    assert missing == []


@pytest.mark.parametrize(("module", "kind"), METHODS)
def test_promised_methods_are_there(module: str, kind: str) -> None:
    found = getattr(import_module(module), kind)
    assert [name for name in METHODS[module, kind].split() if not hasattr(found, name)] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_each_all_lists_only_what_can_be_imported_and_lists_it_once(package: str) -> None:
    top = import_module(package)
    names = [package, *(info.name for info in pkgutil.walk_packages(top.__path__, f"{package}."))]
    for name in names:
        if name.endswith("__main__") or name.split(".")[-1].startswith("lib"):  # the pool is a library, no module
            continue
        module = import_module(name)
        listed = list(getattr(module, "__all__", ()))
        assert len(listed) == len(set(listed)), f"{name}.__all__ names something twice"
        missing = [entry for entry in listed if not hasattr(module, entry)]
        assert missing == [], f"{name}.__all__ promises {missing}"


def test_the_page_names_every_name_of_coord_once() -> None:
    """docs/python.md, "Every name of coord": none is missing, none is promised that isn't there."""
    page = (Path(__file__).parents[1] / "docs" / "python.md").read_text("utf-8")
    section = page.split("## Every name of coord\n")[1].split("\n## ")[0]
    named = [
        name
        for row in re.findall(r"^\|.*\|$", section, re.MULTILINE)
        for name in re.findall(r"`([^`/]+)`", row.split("|")[2])
    ]
    assert sorted([*named, "CoordError"]) == sorted(import_module("coord").__all__)


def test_no_module_takes_the_place_of_a_function_of_its_name() -> None:
    """Importing a.b sets a.b to the module, over a name that a package fetches only when asked for."""
    code = """
import pkgutil, types
from importlib import import_module
for package in ("vector", "splat", "storage", "coord"):
    top = import_module(package)
    for info in pkgutil.iter_modules(top.__path__):
        if not info.name.startswith(("_", "lib")):
            import_module(f"{package}.{info.name}")
    print(*(f"{package}.{name}" for name in top.__all__ if isinstance(getattr(top, name), types.ModuleType)), end="")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_lists_its_public_names(package: str) -> None:
    listed = set(import_module(package).__all__)
    assert listed
    assert {name for name in PROMISED[package].split() if name != "random"} <= listed | {"__version__"}


@pytest.mark.parametrize("package", ["vector", "storage", "coord"])
def test_each_lazy_name_is_the_one_that_type_checkers_see(package: str) -> None:
    """What stands under TYPE_CHECKING, in the table of homes and in `__all__` says the same."""
    top = import_module(package)
    assert top.__file__ is not None
    seen: dict[str, str] = {}
    for node in ast.walk(ast.parse(Path(top.__file__).read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and re.match(rf"{package}\.[^_]", node.module or ""):
            assert node.module is not None
            seen |= {alias.name: node.module.removeprefix(f"{package}.") for alias in node.names}
    inside = {"PLANNERS": "checks"} if package == "coord" else {}  # what build_info imports
    assert seen == top._HOMES | inside
    assert set(top._HOMES) == set(top.__all__) - {"build_info"}
    assert dir(top) == sorted(top.__all__)
    with pytest.raises(AttributeError, match=f"^module '{package}' has no attribute 'nothing'$"):
        _ = top.nothing


def test_coord_and_a_first_plan_stay_within_8_mb_of_numpy() -> None:
    """Peaks of fresh processes, read at their ends; specs say 8 MB for `import coord`."""
    report = "\nprint(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"

    def peak_mb(code: str) -> float:
        done = subprocess.run(
            [sys.executable, "-c", code + report], cwd="/", capture_output=True, text=True, check=True
        )
        return int(done.stdout) / 1024

    numpy = peak_mb("import numpy")
    assert peak_mb("import coord") < numpy
    plan = "import coord\ncoord.plan([coord.AgentState(id=1, speed=1.0)], [], [], [], coord.PlanConfig(), now_tick=0)"
    assert peak_mb(plan) < numpy + 8


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("tensor", {"numpy", "scipy", "rocksdict", "lmdb", "cryptography", "PIL"}),
        ("vector", {"numpy", "scipy", "blake3", "PIL"}),
        ("splat", {"numpy", "scipy", "PIL", "zlib", "OpenGL"}),
        ("storage", {"rocksdict", "lmdb", "cryptography", "scipy", "PIL"}),
        ("coord", {"numpy", "storage", "rocksdict", "lmdb", "cryptography", "scipy", "PIL"}),
        ("droveway", {"numpy", "tensor", "vector", "splat", "storage", "coord", "click", "rich"}),
    ],
)
def test_importing_a_package_loads_nothing_heavy(module: str, unwanted: set[str]) -> None:
    code = f"import sys, {module}; print(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], cwd="/", capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) & unwanted == set()
