"""Inference engines that run the network of a hash: torch or OpenVINO, forward or with gradients."""
