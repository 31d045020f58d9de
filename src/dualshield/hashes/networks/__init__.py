"""Network architectures that hashes are built on; none of them has weights of its own."""
