"""Deterministic arithmetic: kernels with one result on every machine, digests, budgets, counter-based random numbers.

Importing this package loads no numpy; the modules that compute on arrays do, when they are first used.
"""

from importlib import import_module
from typing import Any

from tensor._source_folder import load_kernels

_kernels = load_kernels("tensor")

# Module → the public names that it defines; a module that is public itself stands for itself.
_HOMES = {
    "tensor.autograd": "checkpoint grad grad_enabled gradcheck hessian jvp no_grad value_and_grad vjp vmap",
    "tensor.autograd.anomaly": "checked",
    "tensor.graph.capture": "capture",
    "tensor.device": "Device MemorySpace",
    "tensor.errors": (
        "AnomalyError AxisError BudgetExceeded DeviceError DtypeError EmptyReductionError GradientError LinalgError "
        "OnnxError ReadOnlyError ShapeError TensorError TensorFileError TraceError"
    ),
    "tensor.functions.creation": (
        "arange asarray empty empty_like eye from_dlpack full full_like linspace meshgrid ones ones_like tril triu "
        "zeros zeros_like"
    ),
    "tensor.functions.dtypes": "astype can_cast finfo iinfo isdtype",
    "tensor.functions.comparison": (
        "bitwise_and bitwise_invert bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor equal greater "
        "greater_equal isfinite isinf isnan less less_equal logical_and logical_not logical_or logical_xor "
        "not_equal popcount signbit"
    ),
    "tensor.functions.elementary": (
        "acos acosh asin asinh atan atan2 atanh copysign cos cosh digamma erf erfc exp exp2 expm1 gelu hypot "
        "lgamma log log1p log2 log10 logaddexp nextafter rsqrt sigmoid silu sin sinh softplus tan tanh trigamma"
    ),
    "tensor.functions.elementwise": (
        "abs add angle ceil clip conj divide floor floor_divide imag maximum minimum multiply negative positive "
        "pow real reciprocal relu remainder round sign sqrt square subtract trunc where"
    ),
    "tensor.functions.block_products": "factorized_matmul grouped_gemm moe_swiglu_block",
    "tensor.functions.convolution": "conv1d conv2d conv_transpose1d conv_transpose2d",
    "tensor.functions.convolution3d": "conv3d",
    "tensor.functions.einsum": "einsum",
    "tensor.functions.gates": "score_combine silu_mul softcap",
    "tensor.functions.layouts": (
        "dynamic_slice dynamic_update_slice patchify pixel_shuffle pixel_unshuffle rope_merge rope_split tile_view vec"
    ),
    "tensor.functions.linear_algebra": (
        "affine byte_matmul kron matmul matrix_transpose outer quantised_matmul tensordot vecdot"
    ),
    "tensor.functions.pooling": (
        "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_max_pool1d adaptive_max_pool2d avg_pool1d avg_pool2d "
        "max_pool1d max_pool2d min_pool1d min_pool2d"
    ),
    "tensor.functions.index_moves": (
        "gather index_add index_select masked_fill masked_scatter masked_select scatter scatter_add scatter_reduce "
        "segment_reduce take take_along_axis"
    ),
    "tensor.functions.normalization": (
        "cross_entropy group_norm instance_norm layer_norm log_softmax rms_norm rmsnorm_safe softmax spectral_norm "
        "weight_norm"
    ),
    "tensor.functions.patterns": "pack rearrange unpack",
    "tensor.functions.promotion": "promote_types result_type",
    "tensor.functions.reductions": "all any count_nonzero diff logsumexp",
    "tensor.functions.running_softmax": "online_softmax online_softmax_state reduce softmax_finalize softmax_merge",
    "tensor.functions.searching": "argmax argmin nonzero searchsorted",
    "tensor.functions.sets": "unique_all unique_counts unique_inverse unique_values",
    "tensor.functions.simplex": "entmax15 soft_top_k sparsemax",
    "tensor.functions.sorting": "argsort sort top_k",
    "tensor.functions.statistics": (
        "cummax cummin cumprod cumsum cumulative_prod cumulative_sum max mean min norm prod std sum var"
    ),
    "tensor.functions.info": "__array_namespace_info__",
    "tensor.functions.manipulation": (
        "broadcast_arrays broadcast_shapes broadcast_to cat chunk concat expand_dims flatten flip moveaxis pad "
        "permute_dims repeat reshape roll split squeeze stack tile unstack"
    ),
    "tensor.io.files": "load save",
    "tensor.memory": "ComputeBudget budget",
    "tensor.tensor_digest": "digest",
}
_MODULES = (
    "autograd conformal device elementary fft graph io linalg losses memory onnx optim product quant random reduction "
    "schedules sparse spectral typed updates"
)
_PUBLIC = {name: home for home, names in _HOMES.items() for name in names.split()}
_PUBLIC |= {name: f"tensor.{name}" for name in _MODULES.split()}

# What other libraries call it: named in the error where somebody asks for it here.
_SPELLINGS = {
    "asarray": "array as_tensor from_numpy tensor",
    "astype": "cast",
    "autograd.{}": (
        "associative_scan backward cond custom_jvp custom_primitive custom_vjp enable_grad fori_loop scan "
        "stop_gradient switch tree_flatten tree_map tree_unflatten while_loop"
    ),
    "argsort": "sort_indices",
    "acos": "arccos",
    "asin": "arcsin",
    "atan": "arctan",
    "atan2": "arctan2",
    "capture": "compile jit",
    "concat": "concatenate hstack vstack",
    "digest for the same bits, all(abs(x - y) <= tolerance)": "allclose array_equal isclose",
    "expand_dims": "unsqueeze",
    "fft.fftn": "fft2",
    "float16": "half",
    "float32": "float",
    "float64": "double",
    "int64": "long",
    "linalg.{}": "det inv pinv qr svd trace",
    "losses.{}": "huber_loss mse_loss smooth_l1_loss",
    "matmul, vecdot": "bmm dot inner mm",
    "max": "amax",
    "min": "amin",
    "nonzero": "argwhere",
    "permute_dims": "swapaxes transpose",
    "pow": "power",
    "random.dropout": "dropout",
    "random.Key(seed)": "manual_seed seed",
    "random.Key(seed).normal(shape)": "randn",
    "random.Key(seed).permutation(n)": "randperm",
    "random.Key(seed).randint(low, high, shape)": "randint",
    "random.Key(seed).uniform(shape)": "rand",
    "reshape": "ravel view",
    "take(table, ids, axis=0)": "embedding",
    "top_k": "topk",
    "vmap of vjp or of jvp, hessian": "jacfwd jacobian jacrev",
}

Tensor = _kernels.Tensor
Dtype = _kernels.Dtype
bitcast = _kernels.bitcast
for _dtype in _kernels.DTYPES:  # bool, int8, … complex128
    globals()[_dtype.name] = _dtype

e = 2.718281828459045
inf = float("inf")
nan = float("nan")
newaxis = None
pi = 3.141592653589793

__array_api_version__ = "2024.12"

__all__ = [
    "Dtype",
    "Tensor",
    "bitcast",
    "build_info",
    "e",
    "inf",
    "nan",
    "newaxis",
    "pi",
]
__all__ += [_dtype.name for _dtype in _kernels.DTYPES]
__all__ += list(_PUBLIC)


def build_info() -> dict[str, object]:
    """How this build computes: instruction set in use and best available, compiler, threads.

    >>> sorted(build_info())
    ['compiler', 'isa', 'isa_best', 'threads']
    """
    return {
        "isa": _kernels.isa(),
        "isa_best": _kernels.isa_best(),
        "compiler": _kernels.compiler(),
        "threads": _kernels.threads(),
    }


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        ours = next((where for where, names in _SPELLINGS.items() if name in names.split()), None)
        hint = f" (hint: tensor.{ours.format(name)})" if ours else ""
        raise AttributeError(f"module 'tensor' has no attribute {name!r}{hint}")
    module = import_module(_PUBLIC[name])
    value = module if module.__name__ == f"tensor.{name}" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


def _install() -> None:
    from tensor.methods import install

    install()


_install()
