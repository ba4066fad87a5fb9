"""Workers keep what their agreement probe found; results keep energy, and the memory of their device."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("workers", sa.Column("agreement", sa.JSON(), nullable=True))
    op.add_column("results", sa.Column("energy_joules", sa.Float(), nullable=True))
    op.add_column("results", sa.Column("energy_reason", sa.Text(), nullable=True))
    op.add_column("results", sa.Column("device_memory_bytes", sa.BigInteger(), nullable=True))
