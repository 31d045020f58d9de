"""The built-in hashes, one module each."""
