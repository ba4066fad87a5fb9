"""What changes with each lease is in no index of trials, and in a small one of attempts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

OPEN = sa.text("state = 'open'")


def upgrade() -> None:
    op.drop_index(op.f("ix_trials_attempt"), "trials")
    if op.get_bind().dialect.name == "postgresql":
        op.execute("ALTER TABLE trials SET (fillfactor = 60)")
    op.drop_index(op.f("ix_attempts_state_leased_until"), "attempts")
    op.create_index("ix_attempts_open", "attempts", ["leased_until"], sqlite_where=OPEN, postgresql_where=OPEN)
