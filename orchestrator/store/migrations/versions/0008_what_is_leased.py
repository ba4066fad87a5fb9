"""Indexes of what is leased hold that alone: of a million trials and attempts nearly all wait or have ended."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

LEASED = sa.text("attempt IS NOT NULL")
OPEN = sa.text("state = 'open'")


def upgrade() -> None:
    op.drop_index(op.f("ix_trials_attempt"), "trials")
    op.create_index("ix_trials_leased", "trials", ["attempt"], sqlite_where=LEASED, postgresql_where=LEASED)
    op.drop_index(op.f("ix_attempts_state_leased_until"), "attempts")
    op.create_index("ix_attempts_open", "attempts", ["leased_until"], sqlite_where=OPEN, postgresql_where=OPEN)
