"""Twins: the readable numpy programs that define the bits of every kernel."""
