"""Attention, its linear kin, rotary embeddings and causal convolutions with a state."""

from __future__ import annotations

import math
from typing import Any

import tensor as tn
from tensor.onnx.elementwise import cast, like, swish
from tensor.onnx.node import Node, operator
from tensor.onnx.values import dtype_of

__all__: list[str] = []

Tensor = Any


def _heads(x: Tensor, count: int | None) -> Tensor:
    """[batch, steps, heads·size] as [batch, heads, steps, size]."""
    if not count or x.shape[2] % count:
        raise ValueError(f"{count} heads do not divide the last axis of shape {x.shape}")
    return x.reshape((*x.shape[:2], count, x.shape[2] // count)).permute((0, 2, 1, 3))


def _joined(x: Tensor) -> Tensor:
    n, heads, steps, size = x.shape
    return x.permute((0, 2, 1, 3)).reshape((n, steps, heads * size))


def _shared(x: Tensor, heads: int) -> Tensor:
    """The heads of keys or values, each repeated for its group of queries."""
    if x.shape[1] == heads:
        return x
    if heads % x.shape[1]:
        raise ValueError(f"{x.shape[1]} heads of keys do not divide {heads} heads of queries")
    return tn.repeat(x, heads // x.shape[1], axis=1)


def _bias(node: Node, q: Tensor, k: Tensor, mask: Tensor, past: Tensor, filled: Tensor) -> Tensor | None:
    """What is added to the scores: 0 or −inf by mask, causality, window and padding; None for nothing."""
    steps, keys = q.shape[2], k.shape[2]
    nothing, minus = like(0, q), like(float("-inf"), q)
    allowed = None
    bias = None
    if mask is not None:
        short = keys - mask.shape[-1]
        boolean = mask.dtype.name == "bool"
        if short > 0:
            widths = [(0, 0)] * (mask.ndim - 1) + [(0, short)]
            mask = tn.pad(mask, widths, value=False if boolean else float("-inf"))
        bias = tn.where(mask, nothing, minus) if boolean else cast(mask, q.dtype)
    offset = tn.zeros((1, 1, 1, 1), dtype=tn.int64)
    if past is not None:
        offset = offset + past.shape[2]
    elif filled is not None:
        offset = cast(filled, tn.int64).reshape((-1, 1, 1, 1)) - steps
    query = tn.arange(steps, dtype=tn.int64).reshape((steps, 1)) + offset
    key = tn.arange(keys, dtype=tn.int64)
    left, right = node.get("left_window_size", -1), node.get("right_window_size", -1)
    rules = []
    if node.get("is_causal", 0):
        rules.append(key <= query)
    if left >= 0:
        rules.append(query - key <= left)
    if right >= 0:
        rules.append(key - query <= right)
    if filled is not None:
        rules.append(key < cast(filled, tn.int64).reshape((-1, 1, 1, 1)))
    for rule in rules:
        allowed = rule if allowed is None else tn.logical_and(allowed, rule)
    if allowed is not None:
        hidden = tn.where(allowed, nothing, minus)
        bias = hidden if bias is None else bias + hidden
    return bias


def _weights(scores: Tensor, bias: Tensor | None) -> Tensor:
    """softmax along the keys; a row without a key is 0."""
    if scores.shape[-1] == 0:
        return scores
    y = tn.softmax(scores, -1)
    if bias is None:
        return y
    empty = tn.max(bias, axis=-1, keepdims=True) == float("-inf")
    return tn.where(empty, like(0, y), y)


@operator("Attention")
def _attention(
    node: Node,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor = None,
    past_k: Tensor = None,
    past_v: Tensor = None,
    filled: Tensor = None,
) -> tuple[Tensor, ...]:
    packed = q.ndim == 3
    if packed:
        q, k, v = (
            _heads(q, node.get("q_num_heads")),
            _heads(k, node.get("kv_num_heads")),
            _heads(v, node.get("kv_num_heads")),
        )
    if past_k is not None:
        k, v = tn.concat((past_k, k), axis=2), tn.concat((past_v, v), axis=2)
    present = (k, v)
    scale = node.get("scale", 1 / math.sqrt(q.shape[3]) if q.shape[3] else 1.0)
    root = like(math.sqrt(scale), q)
    bias = _bias(node, q, k, mask, past_k, filled)
    heads = q.shape[1]
    k, v = _shared(k, heads), _shared(v, heads)
    scores = tn.matmul(q * root, tn.matrix_transpose(k) * root)
    raw = scores
    softcap = node.get("softcap", 0.0)
    if softcap > 0:
        scores = tn.tanh(scores / softcap) * softcap
    mode = node.get("qk_matmul_output_mode", 0)
    shown = scores if mode == 1 else raw
    scores = scores if bias is None else scores + bias
    shown = scores if mode == 2 else shown
    precision = node.get("softmax_precision")
    wide = scores if not precision else cast(scores, dtype_of(precision, "attribute softmax_precision"))
    weights = cast(_weights(wide, bias), q.dtype)
    shown = weights if mode == 3 else shown
    y = tn.matmul(weights, cast(v, q.dtype))
    return (_joined(y) if packed else y), *present, shown


@operator("FlexAttention", domain="ai.onnx.preview")
def _flex(node: Node, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    k, v = _shared(k, q.shape[1]), _shared(v, q.shape[1])
    precision = node.get("softmax_precision")
    wide = tn.float64 if q.dtype.name == "float64" else tn.float32
    wide = dtype_of(precision, "attribute softmax_precision") if precision else wide
    scale = node.get("scale", 1 / math.sqrt(q.shape[3]))
    scores = tn.matmul(cast(q, wide), tn.matrix_transpose(cast(k, wide))) * scale
    for name in ("score_mod", "prob_mod"):
        if name == "prob_mod":
            scores = tn.softmax(scores, -1)
        graph = node.get(name)
        if graph is not None:
            (scores,) = node.run(graph, scores)
    return tn.matmul(cast(scores, q.dtype), v)


@operator("RotaryEmbedding")
def _rotary(node: Node, x: Tensor, cos: Tensor, sin: Tensor, positions: Tensor = None) -> Tensor:
    packed = x.ndim == 3
    if packed:
        heads = node.get("num_heads", 0)
        if heads < 1 or x.shape[2] % heads:
            raise ValueError(f"{heads} heads do not divide the last axis of shape {x.shape}")
        wide = x.reshape((*x.shape[:2], heads, x.shape[2] // heads))
    else:
        wide = x.permute((0, 2, 1, 3))
    size = node.get("rotary_embedding_dim", 0) or wide.shape[3]
    turned, rest = wide[..., :size], wide[..., size:]
    if positions is not None:
        shape = (*positions.shape, cos.shape[-1])
        cos, sin = (tn.take(t, cast(positions, tn.int64).reshape((-1,)), axis=0).reshape(shape) for t in (cos, sin))
    cos, sin = tn.expand_dims(cos, axis=2), tn.expand_dims(sin, axis=2)
    if node.get("interleaved", 0):
        a, b = turned[..., 0::2], turned[..., 1::2]
        y = tn.stack((cos * a - sin * b, sin * a + cos * b), axis=-1).reshape(turned.shape)
    else:
        a, b = turned[..., : size // 2], turned[..., size // 2 :]
        y = tn.concat((cos * a - sin * b, sin * a + cos * b), axis=-1)
    y = tn.concat((y, rest), axis=-1)
    return y.reshape(x.shape) if packed else y.permute((0, 2, 1, 3))


def _per_key(x: Tensor, heads: int, size: int) -> Tensor:
    """Rates [batch, steps, heads or heads·size] as [batch, heads, steps, 1 or size]."""
    return _heads(x, heads) if x.shape[2] in (heads, heads * size) else _heads(tn.repeat(x, heads, axis=2), heads)


@operator("LinearAttention")
def _linear(
    node: Node, q: Tensor, k: Tensor, v: Tensor, past: Tensor = None, decay: Tensor = None, beta: Tensor = None
) -> tuple[Tensor, Tensor]:
    heads, kv_heads = node.require("q_num_heads"), node.require("kv_num_heads")
    rule = node.get("update_rule", "gated_delta")
    if rule not in ("linear", "gated", "delta", "gated_delta"):
        raise ValueError(f"update_rule must be linear, gated, delta or gated_delta, got {rule!r}")
    dtype = q.dtype
    wide = tn.float64 if dtype.name == "float64" else tn.float32
    q, k, v = _heads(cast(q, wide), heads), _heads(cast(k, wide), kv_heads), _heads(cast(v, wide), kv_heads)
    scale = node.get("scale", 0.0) or 1 / math.sqrt(q.shape[3])
    size = k.shape[3]
    gates = None if decay is None else tn.exp(_per_key(cast(decay, wide), kv_heads, size))
    rates = None if beta is None else _per_key(cast(beta, wide), kv_heads, size)
    zeros = tn.zeros((q.shape[0], kv_heads, size, v.shape[3]), dtype=wide)
    state = zeros if past is None else cast(past, wide)
    outputs = []
    for t in range(q.shape[2]):
        key, value = k[:, :, t, :, None], v[:, :, t, None, :]
        if gates is not None:
            state = state * gates[:, :, t, :, None]
        if rates is not None:
            value = (value - tn.sum(state * key, axis=2, keepdims=True)) * rates[:, :, t, :, None]
        state = state + key * value
        outputs.append(tn.sum(_shared(state, heads) * q[:, :, t, :, None], axis=2) * scale)
    y = _joined(tn.stack(outputs, axis=2)) if outputs else _joined(tn.zeros((*q.shape[:3], v.shape[3]), dtype=wide))
    return cast(y, dtype), cast(state, dtype if past is None else past.dtype)


@operator("CausalConvWithState")
def _causal_conv(
    node: Node, x: Tensor, weight: Tensor, bias: Tensor = None, past: Tensor = None
) -> tuple[Tensor, Tensor]:
    n, channels, _ = x.shape
    reach = weight.shape[2] - 1
    before = tn.zeros((n, channels, reach), dtype=x.dtype) if past is None else past
    line = tn.concat((before, x), axis=2)
    y = tn.conv1d(line, weight, bias, groups=channels)
    activation = node.get("activation", "none")
    if activation not in ("none", "silu", "swish"):
        raise ValueError(f"activation must be none, silu or swish, got {activation!r}")
    return (y if activation == "none" else swish(y)), line[:, :, line.shape[2] - reach :]
