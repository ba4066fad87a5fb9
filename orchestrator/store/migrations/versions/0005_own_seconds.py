"""Results keep what a trial took by itself; trials are found by their cell."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("results", sa.Column("own_seconds", sa.Float(), nullable=True))
    op.create_index("ix_trials_cell", "trials", ["cell"])
