"""Benchmarks, run by hand: every figure is a ratio to a baseline measured in the same run."""
