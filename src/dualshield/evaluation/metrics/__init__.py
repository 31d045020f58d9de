"""Image metrics that need trained networks."""
