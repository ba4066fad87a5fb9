"""Tuning: what Optuna proposes, what becomes of it, and where it can be looked at."""
