"""Fused GPU kernels of the networks."""
