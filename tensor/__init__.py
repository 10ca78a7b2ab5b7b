"""Deterministic arithmetic: kernels with one result on every machine, digests, budgets, counter-based random numbers."""

try:
    from tensor import _kernels
except ImportError as error:
    if error.name == "tensor._kernels" or "_kernels" in str(error).split("'")[1:2]:
        raise ImportError(
            "this is the source folder of droveway's package 'tensor', which has no built '_kernels': "
            "leave the folder, or run: pip install -e ."
        ) from None
    raise

__all__: list[str] = []
