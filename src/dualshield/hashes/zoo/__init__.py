"""One file per hash."""
