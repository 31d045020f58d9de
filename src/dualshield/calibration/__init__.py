"""Calibration: measure a hash on photos and choose the profile to deploy."""
