"""Losses of sequences: token by token under a mask, and over all alignments."""

from __future__ import annotations

from typing import Any

from tensor.errors import DtypeError, ShapeError
from tensor.functions.axes import tensor_of
from tensor.functions.creation import arange, full
from tensor.functions.elementary import logaddexp
from tensor.functions.elementwise import maximum, where
from tensor.functions.index_moves import take_along_axis
from tensor.functions.manipulation import concat, pad, stack
from tensor.functions.normalization import cross_entropy
from tensor.functions.promotion import cast_to
from tensor.losses.reduction import classes, classes_within, floats, reduced

__all__ = ["ctc_loss", "seq2seq_loss"]

Tensor = Any


def seq2seq_loss(logits: Tensor, targets: Tensor, /, mask: Tensor | None = None, *, reduction: str = "mean") -> Tensor:
    """Cross entropy of each token: logits [..., classes], targets: ints [...], mask [...]: the mean is over its ones.

    >>> import tensor as tn
    >>> logits = tn.asarray([[[0.0, 0.0], [9.0, 0.0]]])
    >>> round(tn.losses.seq2seq_loss(logits, tn.asarray([[0, 1]]), tn.asarray([[1, 0]])).item(), 6)
    0.693147
    """
    index = classes("seq2seq_loss", targets, floats("seq2seq_loss", logits, 1))
    flat = logits.reshape((-1, logits.shape[-1]))
    losses = cross_entropy(flat, index.reshape((-1,)), reduction="none").reshape(index.shape)
    return reduced("seq2seq_loss", losses, reduction, mask)


def _within(what: str, lengths: Tensor, most: int) -> None:
    """ValueError for a length that is not from 0 to `most`; lengths that are traced are taken as they are."""
    if lengths.is_traced or not lengths.size:
        return
    low, high = int(lengths.detach().min().item()), int(lengths.detach().max().item())
    if low < 0 or high > most:
        raise ValueError(f"ctc_loss: {what} must be from 0 to {most}, got {low if low < 0 else high}")


_NEVER = -1e30  # the log probability of what cannot be: finite, so that differences of two are numbers


def ctc_loss(
    log_probabilities: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    /,
    *,
    blank: int = 0,
    reduction: str = "mean",
) -> Tensor:
    """−log of the sum of the probabilities of all alignments of the targets (Graves et al. 2006).

    log_probabilities [steps, n, classes]; targets: ints [n, longest], of which the first target_lengths count, in the
    first input_lengths steps (int vectors [n]). "mean" divides each loss by its target's length, as PyTorch does. Where
    no alignment fits, the loss is infinite and its gradient 0. IndexError where a target is no class, ValueError for
    lengths that are out of range.

    >>> import tensor as tn
    >>> even = tn.log(tn.full((2, 1, 2), 0.5))
    >>> one = tn.asarray([1])
    >>> round(tn.losses.ctc_loss(even, tn.asarray([[1]]), one * 2, one).item(), 6)  # 1-, -1 and 11 of four
    0.287682
    """
    floats("ctc_loss", log_probabilities)
    if log_probabilities.ndim != 3 or tensor_of("ctc_loss", targets).ndim != 2 or 0 in log_probabilities.shape:
        raise ShapeError(
            "ctc_loss: expected log_probabilities [steps, n, classes] and targets [n, longest], got shapes "
            f"{log_probabilities.shape} and {targets.shape}"
        )
    steps, n, count = log_probabilities.shape
    if not 0 <= blank < count:
        raise ValueError(f"ctc_loss: blank must be a class from 0 to {count - 1}, got {blank}")
    if targets.shape[0] != n or input_lengths.shape != (n,) or target_lengths.shape != (n,):
        raise ShapeError(
            f"ctc_loss: targets and lengths for {n} sequences are needed, got shapes {targets.shape}, "
            f"{input_lengths.shape} and {target_lengths.shape}"
        )
    for what, x in (("targets", targets), ("input_lengths", input_lengths), ("target_lengths", target_lengths)):
        if x.dtype.kind not in ("signed integer", "unsigned integer"):
            raise DtypeError(f"ctc_loss: {what} must be integers, got {x.dtype.name}")
    _within("input_lengths", input_lengths, steps)
    _within("target_lengths", target_lengths, targets.shape[1])
    labels = cast_to(targets, "int64")
    longest, device, dtype = labels.shape[1], labels.device, log_probabilities.dtype
    lengths = cast_to(target_lengths, "int64").reshape((n, 1))
    counts = arange(longest, device=device).reshape((1, longest)) < lengths  # what lies behind may be anything
    labels = classes_within("ctc_loss", "target", where(counts, labels, blank), count)
    gaps = full((n, longest), blank, dtype="int64", device=device)
    end = full((n, 1), blank, dtype="int64", device=device)
    states = concat([stack([gaps, labels], axis=-1).reshape((n, 2 * longest)), end], axis=1)
    wide = 2 * longest + 1
    index = states.reshape((1, n, wide)).expand((steps, n, wide))
    emitted = maximum(take_along_axis(log_probabilities, index), _NEVER)
    number = arange(wide, device=device).reshape((1, wide))
    two_before = pad(states[:, :-2], [(0, 0), (2, 0)], value=blank) if wide > 2 else states * 0 + blank
    skips = (states != blank) & (states != two_before) & (number >= 2)
    never = full((n, wide), _NEVER, dtype=dtype.name, device=device)
    forward = where(number < 2, emitted[0], never)
    inputs = cast_to(input_lengths, "int64").reshape((n, 1))
    for t in range(1, steps):
        one = pad(forward[:, :-1], [(0, 0), (1, 0)], value=_NEVER)
        total = logaddexp(forward, one)
        if wide > 2:
            two = pad(forward[:, :-2], [(0, 0), (2, 0)], value=_NEVER)
            total = logaddexp(total, where(skips, two, never))
        forward = where(inputs > t, maximum(total + emitted[t], _NEVER), forward)
    last = take_along_axis(forward, lengths * 2)
    before = take_along_axis(forward, maximum(lengths * 2 - 1, 0))
    both = where(lengths > 0, logaddexp(last, before), last).reshape((n,))
    losses = where(both > _NEVER / 2, -both, float("inf"))
    empty = inputs.reshape((n,)) == 0  # of no step: the empty sequence is certain
    losses = where(empty, where(lengths.reshape((n,)) == 0, 0.0 * both, float("inf")), losses)
    if reduction == "mean":
        return (losses / cast_to(maximum(lengths.reshape((n,)), 1), dtype.name)).mean()
    return reduced("ctc_loss", losses, reduction)
