"""Fused GPU kernels of networks: `conv` in CUDA, `norm`, `patches` and `inference` in Triton."""
