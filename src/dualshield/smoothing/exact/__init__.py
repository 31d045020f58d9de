"""Exact certificates of hashes that are linear up to a threshold (METHOD.md 4): numpy only, no noise, no torch."""
