"""Leases name their orchestrator, batches split, trackers hold leases, illegal changes of state are impossible."""

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
    op.add_column("trials", sa.Column("batch_limit", sa.Integer(), nullable=True))
    op.add_column("sweeps", sa.Column("infrastructure_retries", sa.Integer(), nullable=False, server_default="3"))
    op.add_column("sweeps", sa.Column("code_retries", sa.Integer(), nullable=False, server_default="0"))
    with op.batch_alter_table("attempts") as batch:
        batch.add_column(sa.Column("orchestrator", sa.String(length=32), nullable=True))
        batch.add_column(sa.Column("stale", sa.Integer(), nullable=False, server_default="0"))
        batch.create_foreign_key(op.f("fk_attempts_orchestrator"), "orchestrators", ["orchestrator"], ["id"])
    for statement in trigger_statements(op.get_bind().dialect.name):
        op.get_bind().exec_driver_sql(statement)
