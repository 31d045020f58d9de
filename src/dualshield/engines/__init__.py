"""Engines run the network of a hash, forward or with gradients, as fast as the machine allows."""
