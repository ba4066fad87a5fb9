"""Results keep series of numbers, and cells that measure time name their machine."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("results", sa.Column("series", sa.JSON(), nullable=True))
    op.add_column("cells", sa.Column("machine", sa.String(length=64), nullable=True))
