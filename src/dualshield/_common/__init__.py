"""Small helpers that all rooms share; nothing here is public."""
