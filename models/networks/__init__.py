"""Trained sequence models: what they have in common, and the scans they are made of."""
