"""Losses of vectors that should lie near each other, or apart."""

from __future__ import annotations

from typing import Any

from tensor.errors import DtypeError, ShapeError
from tensor.functions.axes import tensor_of
from tensor.functions.creation import arange, zeros
from tensor.functions.elementwise import maximum, relu, square, where
from tensor.functions.linear_algebra import matmul, vecdot
from tensor.functions.manipulation import concat
from tensor.functions.normalization import cross_entropy, log_softmax
from tensor.functions.promotion import cast_to
from tensor.functions.statistics import norm
from tensor.losses.reduction import alike, floats, positive, reduced

__all__ = ["contrastive_loss", "cosine_embedding_loss", "info_nce_loss", "nt_xent_loss", "triplet_loss"]

Tensor = Any


def _length(x: Tensor) -> Tensor:
    return norm(x, axis=-1)


def triplet_loss(
    anchor: Tensor, positives: Tensor, negatives: Tensor, /, *, margin: float = 1.0, reduction: str = "mean"
) -> Tensor:
    """max(0, ‖anchor − positive‖ − ‖anchor − negative‖ + margin) of vectors [..., d] (Schroff et al. 2015).

    >>> import tensor as tn
    >>> a, p, n = tn.asarray([[0.0, 0.0]]), tn.asarray([[3.0, 4.0]]), tn.asarray([[1.0, 0.0]])
    >>> tn.losses.triplet_loss(a, p, n).item()
    5.0
    """
    alike("triplet_loss", anchor=floats("triplet_loss", anchor, 1), positives=positives, negatives=negatives)
    apart = _length(anchor - positives) - _length(anchor - negatives)
    return reduced("triplet_loss", relu(apart + float(margin)), reduction)


def _pairs(name: str, x1: Tensor, x2: Tensor, target: Tensor) -> None:
    alike(name, x1=floats(name, x1, 1), x2=x2)
    if tensor_of(name, target).shape != x1.shape[:-1]:
        raise ShapeError(f"{name}: targets of shape {x1.shape[:-1]} are needed, got {target.shape}")


def contrastive_loss(
    x1: Tensor, x2: Tensor, target: Tensor, /, *, margin: float = 1.0, reduction: str = "mean"
) -> Tensor:
    """t·d² + (1 − t)·max(0, margin − d)² with d = ‖x1 − x2‖; t is 1 for pairs that belong together, else 0.

    x1, x2: [..., d]; target [...] (Hadsell, Chopra and LeCun 2006).

    >>> import tensor as tn
    >>> x, y = tn.asarray([[0.0], [0.0]]), tn.asarray([[2.0], [0.5]])
    >>> tn.losses.contrastive_loss(x, y, tn.asarray([1, 0]), reduction="none").tolist()
    [4.0, 0.25]
    """
    _pairs("contrastive_loss", x1, x2, target)
    t, d = cast_to(target, x1.dtype), _length(x1 - x2)
    return reduced("contrastive_loss", t * square(d) + (1 - t) * square(relu(float(margin) - d)), reduction)


def cosine_embedding_loss(
    x1: Tensor, x2: Tensor, target: Tensor, /, *, margin: float = 0.0, epsilon: float = 1e-12, reduction: str = "mean"
) -> Tensor:
    """1 − cos for pairs with a target above 0, max(0, cos − margin) for the others; vectors [..., d], target [...].

    epsilon: what the product of the lengths is at least.

    >>> import tensor as tn
    >>> x, y = tn.asarray([[1.0, 0.0], [1.0, 0.0]]), tn.asarray([[0.0, 2.0], [3.0, 0.0]])
    >>> tn.losses.cosine_embedding_loss(x, y, tn.asarray([1, -1]), reduction="none").tolist()
    [1.0, 1.0]
    """
    _pairs("cosine_embedding_loss", x1, x2, target)
    least = positive("cosine_embedding_loss", "epsilon", epsilon)
    cosine = vecdot(x1, x2) / maximum(_length(x1) * _length(x2), least)
    return reduced("cosine_embedding_loss", where(target > 0, 1 - cosine, relu(cosine - float(margin))), reduction)


def info_nce_loss(
    query: Tensor, positives: Tensor, negatives: Tensor, /, *, temperature: float = 0.1, reduction: str = "mean"
) -> Tensor:
    """Cross entropy of picking the positive among it and k negatives by their dot products with the query.

    query, positives: [n, d]; negatives: [n, k, d] (van den Oord, Li and Vinyals 2018).

    >>> import tensor as tn
    >>> q = tn.asarray([[1.0, 0.0]])
    >>> round(tn.losses.info_nce_loss(q, q, tn.asarray([[[0.0, 1.0]]]), temperature=1.0).item(), 6)
    0.313262
    """
    alike("info_nce_loss", query=floats("info_nce_loss", query, 2), positives=positives)
    n, d = query.shape if query.ndim == 2 else (-1, -1)
    if floats("info_nce_loss", negatives).ndim != 3 or negatives.shape[::2] != (n, d):
        raise ShapeError(
            f"info_nce_loss: expected query [n, d] and negatives [n, k, d], got {query.shape} and {negatives.shape}"
        )
    t = positive("info_nce_loss", "temperature", temperature)
    near = vecdot(query, positives).reshape((n, 1))
    far = vecdot(negatives, query.reshape((n, 1, d)))
    logits = concat([near, far], axis=1) / t
    return cross_entropy(logits, zeros(n, dtype="int64", device=query.device), reduction=reduction)


def nt_xent_loss(embeddings: Tensor, labels: Tensor, /, *, temperature: float = 0.5, reduction: str = "mean") -> Tensor:
    """For each of n vectors the mean of −log of its softmax similarity to those of its label, among all others.

    embeddings [n, d], made unit vectors; labels: ints [n]; 0 for a label of its own (Chen et al. 2020).

    >>> import tensor as tn
    >>> x = tn.asarray([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, 3.0]])
    >>> round(tn.losses.nt_xent_loss(x, tn.asarray([0, 0, 1, 1])).item(), 6)
    0.239545
    """
    if floats("nt_xent_loss", embeddings).ndim != 2 or tensor_of("nt_xent_loss", labels).shape != embeddings.shape[:1]:
        raise ShapeError(
            f"nt_xent_loss: expected embeddings [n, d] and labels [n], got {embeddings.shape} and {labels.shape}"
        )
    if labels.dtype.kind not in ("signed integer", "unsigned integer"):
        raise DtypeError(f"nt_xent_loss: labels must be integers, got {labels.dtype.name}")
    n = embeddings.shape[0]
    unit = embeddings / maximum(norm(embeddings, axis=-1, keepdims=True), 1e-12)
    places = arange(n, device=embeddings.device)
    own = places.reshape((n, 1)) == places.reshape((1, n))
    logits = where(own, float("-inf"), matmul(unit, unit.mT) / positive("nt_xent_loss", "temperature", temperature))
    same = (labels.reshape((n, 1)) == labels.reshape((1, n))) & ~own
    count = maximum(same.sum(axis=-1), 1)
    total = where(same, log_softmax(logits), 0.0).sum(axis=-1)
    return reduced("nt_xent_loss", -total / cast_to(count, total.dtype), reduction)
