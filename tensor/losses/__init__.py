"""Losses, a file a family: regression, classification, sequences, distributions, embeddings, scores, policies.

Each is a composite of rows, so it has derivatives of any order, batches and one result on every machine. Operands have
equal shapes, nothing is broadcast silently. `reduction` is "mean", "sum" or "none". Cross entropy is
`tensor.cross_entropy`.
"""

from tensor.losses.classification import asymmetric_bce, binary_cross_entropy_loss, focal_loss
from tensor.losses.distributions import js_divergence, kl_divergence, wasserstein_distance
from tensor.losses.embeddings import (
    contrastive_loss,
    cosine_embedding_loss,
    info_nce_loss,
    nt_xent_loss,
    triplet_loss,
)
from tensor.losses.policies import cispo_policy_loss, grpo_policy_loss, normalize_group_advantages, ppo_policy_loss
from tensor.losses.regression import huber_loss, log_cosh_loss, mae_loss, mse_loss, smooth_l1_loss
from tensor.losses.routing import load_balance_loss, z_loss
from tensor.losses.scores import (
    contrastive_divergence_loss,
    denoising_score_matching_loss,
    implicit_score_matching_loss,
    score_matching_loss,
    vlb_loss,
)
from tensor.losses.sequences import ctc_loss, seq2seq_loss

__all__ = [
    "asymmetric_bce",
    "binary_cross_entropy_loss",
    "cispo_policy_loss",
    "contrastive_divergence_loss",
    "contrastive_loss",
    "cosine_embedding_loss",
    "ctc_loss",
    "denoising_score_matching_loss",
    "focal_loss",
    "grpo_policy_loss",
    "huber_loss",
    "implicit_score_matching_loss",
    "info_nce_loss",
    "js_divergence",
    "kl_divergence",
    "load_balance_loss",
    "log_cosh_loss",
    "mae_loss",
    "mse_loss",
    "normalize_group_advantages",
    "nt_xent_loss",
    "ppo_policy_loss",
    "score_matching_loss",
    "seq2seq_loss",
    "smooth_l1_loss",
    "triplet_loss",
    "vlb_loss",
    "wasserstein_distance",
    "z_loss",
]
