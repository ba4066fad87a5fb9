"""Leases name their orchestrator, batches split, trackers hold leases, illegal changes fail, code is recorded."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from orchestrator.store.triggers import trigger_statements

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "orchestrators",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("boot", sa.String(length=64), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("process_started", sa.Float(), nullable=False),
        sa.Column("started", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_orchestrators")),
    )
    op.create_table(
        "tracker_leases",
        sa.Column("sweep", sa.String(length=16), nullable=False),
        sa.Column("holder", sa.String(length=32), nullable=False),
        sa.Column("lease_clock", sa.String(length=64), nullable=False),
        sa.Column("leased_until", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["sweep"], ["sweeps.id"], name=op.f("fk_tracker_leases_sweep")),
        sa.PrimaryKeyConstraint("sweep", name=op.f("pk_tracker_leases")),
    )
    op.create_table(
        "fingerprints",
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("modules", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_fingerprints")),
    )
    op.add_column("outbox", sa.Column("refused", sa.Text(), nullable=True))
    op.add_column("trials", sa.Column("batch_limit", sa.Integer(), nullable=True))
    op.add_column("sweeps", sa.Column("infrastructure_retries", sa.Integer(), nullable=False, server_default="3"))
    op.add_column("sweeps", sa.Column("code_retries", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("attempts", sa.Column("stale", sa.Integer(), nullable=False, server_default="0"))
    # Not as a batch: SQLite would make the table anew, which the rows that refer to it forbid, and forget its checks.
    orchestrator = sa.ForeignKey("orchestrators.id", name=op.f("fk_attempts_orchestrator"))
    op.add_column(
        "attempts",
        sa.Column("orchestrator", sa.String(length=32), orchestrator, nullable=True),
        inline_references=op.get_bind().dialect.name == "sqlite",
    )
    for statement in trigger_statements(op.get_bind().dialect.name):
        op.get_bind().exec_driver_sql(statement)
