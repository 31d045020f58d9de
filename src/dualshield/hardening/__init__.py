"""Publication-time hardening: move a reference far from the matching boundary before it is published."""
