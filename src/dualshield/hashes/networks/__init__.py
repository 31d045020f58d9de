"""Network architectures of the hashes, without weights."""
