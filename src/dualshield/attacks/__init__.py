"""Attackers, to measure what the shields are worth: one file per attack, one common call."""
