"""Calibration measures the profile that a hash is deployed with."""
