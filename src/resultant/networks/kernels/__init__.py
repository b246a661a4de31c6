"""Fused GPU kernels of the networks: `conv` in CUDA, `norm` and `inference` in Triton."""
