"""Benchmarks, run by hand; speeds are ratios to a baseline measured in the same run."""
