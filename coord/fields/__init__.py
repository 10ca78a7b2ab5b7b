"""Influence fields: Gaussians at points, over cells, as features and as maps."""
