"""Automatic differentiation: the tape, and functions of functions over the same table of primitives.

Tape: `requires_grad_()`, `backward()`, `.grad`, `no_grad`. Functions: grad, value_and_grad, vjp, jvp, vmap, hessian,
checkpoint, in any order and nesting, over trees of tensors. Control flow: scan, cond, switch, while_loop, fori_loop,
map, associative_scan. Extension: custom_vjp, custom_jvp, custom_primitive; stop_gradient.
gradcheck compares with finite differences.
"""

# Loaded together: some functions carry the names of their modules, and a later import of the module would hide them.
from tensor.autograd.backward import backward, require_grad, zero_grad
from tensor.autograd.checkpoint import checkpoint
from tensor.autograd.control_flow import associative_scan, cond, fori_loop, map, scan, switch, while_loop
from tensor.autograd.custom import custom_jvp, custom_primitive, custom_vjp, stop_gradient
from tensor.autograd.grad import grad, hessian, value_and_grad, vjp
from tensor.autograd.grad_mode import enable_grad, grad_enabled, no_grad
from tensor.autograd.gradcheck import gradcheck
from tensor.autograd.jvp import jvp
from tensor.autograd.pytree import (
    register_pytree_node,
    tree_flatten,
    tree_leaves,
    tree_map,
    tree_reduce,
    tree_transpose,
    tree_unflatten,
)
from tensor.autograd.vmap import axis_index, axis_size, vmap

__all__ = [
    "associative_scan",
    "axis_index",
    "axis_size",
    "backward",
    "checkpoint",
    "cond",
    "custom_jvp",
    "custom_primitive",
    "custom_vjp",
    "enable_grad",
    "fori_loop",
    "grad",
    "grad_enabled",
    "gradcheck",
    "hessian",
    "jvp",
    "map",
    "no_grad",
    "register_pytree_node",
    "require_grad",
    "scan",
    "stop_gradient",
    "switch",
    "tree_flatten",
    "tree_leaves",
    "tree_map",
    "tree_reduce",
    "tree_transpose",
    "tree_unflatten",
    "value_and_grad",
    "vjp",
    "vmap",
    "while_loop",
    "zero_grad",
]
