"""Captured functions: what a function does to tensors as a list of steps, fused, planned and run in one arena."""
