"""Plans of evaluations: the parameters, protocols and images of a run."""
