"""Trained models of token sequences: layers that many seeds share, blocks, and the models that are built of them."""
