"""Memory mechanisms, gates, networks and their kernels; knows nothing of sweeps."""
