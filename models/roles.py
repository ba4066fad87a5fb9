"""What part mechanisms play in a comparison, told from their names."""

from __future__ import annotations

from models.mechanism import MECHANISMS, Role


def role_of(name: str) -> Role:
    """The role of the mechanism `name`. Of one that is not known here nobody can tell: a memory."""
    return MECHANISMS.implementation(name).role if name in MECHANISMS else "memory"


def bounds_of(name: str) -> str:
    """What the mechanism `name` bounds, in a few words; empty for one that is no bound, or not known here."""
    return MECHANISMS.implementation(name).bounds if name in MECHANISMS else ""
