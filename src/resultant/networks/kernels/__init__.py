"""Fused GPU kernels of the networks, in Triton and CUDA."""
