"""Signed texts about a ledger: notes, keys, checkpoints, cosignatures, proof files."""
