"""Hashes that are linear up to a threshold, described without torch."""
