"""Optuna without its lines on the terminal."""

from __future__ import annotations


def quiet_optuna() -> None:
    """Let Optuna log errors only: what it proposes and is told is in our store, and shown by us."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
