"""Smoothing: certificate statistics, noise, the smoothed matcher, profiles and deployments."""
