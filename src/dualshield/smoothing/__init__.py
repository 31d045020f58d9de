"""Smoothing: certificate statistics, noise, engines, the smoothed matcher and its calibration."""
