"""Runs in MLflow: what is recorded, how it gets there, once and in bulk, and what happens while the server is down."""
