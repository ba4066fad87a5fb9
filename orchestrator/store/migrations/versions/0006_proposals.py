"""Sweeps that tune keep what their studies proposed, and the fingerprints that proposals will have."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

ROW_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.add_column("sweeps", sa.Column("fingerprints", sa.JSON(), nullable=True))
    op.create_table(
        "proposals",
        sa.Column("sweep", sa.String(16), nullable=False),
        sa.Column("study", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("batch", sa.Integer(), nullable=False),
        sa.Column("params", sa.JSON(), nullable=False),
        sa.Column("attributes", sa.JSON(), nullable=False),
        sa.Column("cell", ROW_ID, nullable=True),
        sa.Column("same_as", sa.Integer(), nullable=True),
        sa.Column("enqueued", sa.Boolean(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("seeds", sa.Integer(), nullable=True),
        sa.Column("best", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["sweep"], ["sweeps.id"], name=op.f("fk_proposals_sweep")),
        sa.ForeignKeyConstraint(["cell"], ["cells.id"], name=op.f("fk_proposals_cell")),
        sa.PrimaryKeyConstraint("sweep", "study", "number", name=op.f("pk_proposals")),
        sa.CheckConstraint("state IN ('open', 'complete', 'stopped', 'failed')", name=op.f("ck_proposals_state")),
    )
