"""Training: configuration, the loop, checkpoints, the log, probes and extraction."""
