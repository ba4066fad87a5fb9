"""Memory mechanisms on devices: torch, batched over streams and configs, with Triton kernels on CUDA where they pay."""
