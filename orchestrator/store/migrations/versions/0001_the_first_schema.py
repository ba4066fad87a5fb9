"""The first schema."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "cells",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("workload", sa.JSON(), nullable=False),
        sa.Column("mechanism", sa.JSON(), nullable=False),
        sa.Column("episodes", sa.Integer(), nullable=False),
        sa.Column("dtype", sa.String(length=16), nullable=False),
        sa.Column("device", sa.String(length=16), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_cells")),
        sa.UniqueConstraint("digest", name=op.f("uq_cells_digest")),
    )
    op.create_table(
        "code",
        sa.Column("digest", sa.String(length=32), nullable=False),
        sa.Column("archive", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_code")),
    )
    op.create_table(
        "hardware",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("record", sa.JSON(), nullable=False),
        sa.Column("first_seen", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_hardware")),
    )
    op.create_table(
        "sweeps",
        sa.Column("id", sa.String(length=16), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("spec", sa.JSON(), nullable=False),
        sa.Column("spec_text", sa.Text(), nullable=False),
        sa.Column("spec_path", sa.Text(), nullable=True),
        sa.Column("code", sa.String(length=32), nullable=False),
        sa.Column("use_cache", sa.Boolean(), nullable=False),
        sa.Column("trials", sa.Integer(), nullable=False),
        sa.Column("reused", sa.Integer(), nullable=False),
        sa.Column("software", sa.JSON(), nullable=False),
        sa.Column("user", sa.Text(), nullable=True),
        sa.Column("created", sa.Float(), nullable=False),
        sa.Column("started", sa.Float(), nullable=True),
        sa.Column("finished", sa.Float(), nullable=True),
        sa.Column("report", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "state IN ('queued', 'running', 'paused', 'done', 'failed', 'cancelled')", name=op.f("ck_sweeps_state")
        ),
        sa.ForeignKeyConstraint(["code"], ["code.digest"], name=op.f("fk_sweeps_code")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sweeps")),
    )
    op.create_table(
        "trials",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("key", sa.String(length=32), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("cell", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.String(length=16), nullable=True),
        sa.Column("message", sa.Text(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("infrastructure_failures", sa.Integer(), nullable=False),
        sa.Column("code_failures", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.CheckConstraint("(state = 'leased') = (attempt IS NOT NULL)", name=op.f("ck_trials_leased_by_an_attempt")),
        sa.CheckConstraint(
            "reason IS NULL OR reason IN ('cancelled', 'no_result', 'not_a_number', 'out_of_memory', 'preempted', 'timeout', 'user_error', 'worker_lost')",
            name=op.f("ck_trials_reason"),
        ),
        sa.CheckConstraint(
            "state IN ('pending', 'leased', 'done', 'failed', 'cancelled')", name=op.f("ck_trials_state")
        ),
        sa.ForeignKeyConstraint(["cell"], ["cells.id"], name=op.f("fk_trials_cell")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_trials")),
        sa.UniqueConstraint("key", "generation", name=op.f("uq_trials_key_generation")),
    )
    with op.batch_alter_table("trials", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_trials_attempt"), ["attempt"], unique=False)

    op.create_table(
        "workers",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("hardware", sa.String(length=32), nullable=False),
        sa.Column("executor", sa.String(length=16), nullable=False),
        sa.Column("device", sa.String(length=16), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("started", sa.Float(), nullable=False),
        sa.Column("last_seen", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["hardware"], ["hardware.id"], name=op.f("fk_workers_hardware")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_workers")),
    )
    op.create_table(
        "attempts",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("sweep", sa.String(length=16), nullable=False),
        sa.Column("worker", sa.String(length=32), nullable=True),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("trials", sa.Integer(), nullable=False),
        sa.Column("lease_clock", sa.String(length=64), nullable=False),
        sa.Column("leased_until", sa.Float(), nullable=False),
        sa.Column("started", sa.Float(), nullable=False),
        sa.Column("finished", sa.Float(), nullable=True),
        sa.Column("reason", sa.String(length=16), nullable=True),
        sa.Column("log", sa.Text(), nullable=True),
        sa.CheckConstraint("state IN ('open', 'done', 'lost')", name=op.f("ck_attempts_state")),
        sa.ForeignKeyConstraint(["sweep"], ["sweeps.id"], name=op.f("fk_attempts_sweep")),
        sa.ForeignKeyConstraint(["worker"], ["workers.id"], name=op.f("fk_attempts_worker")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_attempts")),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("attempts", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_attempts_state_leased_until"), ["state", "leased_until"], unique=False)

    op.create_table(
        "outbox",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("sweep", sa.String(length=16), nullable=False),
        sa.Column("trial", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("reused", sa.Boolean(), nullable=False),
        sa.Column("delivered", sa.Float(), nullable=True),
        sa.ForeignKeyConstraint(["sweep"], ["sweeps.id"], name=op.f("fk_outbox_sweep")),
        sa.ForeignKeyConstraint(["trial"], ["trials.id"], name=op.f("fk_outbox_trial")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_outbox")),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("outbox", schema=None) as batch_op:
        batch_op.create_index(
            "ix_outbox_undelivered",
            ["sweep", "id"],
            unique=False,
            sqlite_where=sa.text("delivered IS NULL"),
            postgresql_where=sa.text("delivered IS NULL"),
        )

    op.create_table(
        "sweep_trials",
        sa.Column("sweep", sa.String(length=16), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("trial", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("reused", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["sweep"], ["sweeps.id"], name=op.f("fk_sweep_trials_sweep")),
        sa.ForeignKeyConstraint(["trial"], ["trials.id"], name=op.f("fk_sweep_trials_trial")),
        sa.PrimaryKeyConstraint("sweep", "position", name=op.f("pk_sweep_trials")),
    )
    with op.batch_alter_table("sweep_trials", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_sweep_trials_trial"), ["trial"], unique=False)

    op.create_table(
        "attempt_trials",
        sa.Column("attempt", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("trial", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.ForeignKeyConstraint(["attempt"], ["attempts.id"], name=op.f("fk_attempt_trials_attempt")),
        sa.ForeignKeyConstraint(["trial"], ["trials.id"], name=op.f("fk_attempt_trials_trial")),
        sa.PrimaryKeyConstraint("attempt", "trial", name=op.f("pk_attempt_trials")),
    )
    with op.batch_alter_table("attempt_trials", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_attempt_trials_trial"), ["trial"], unique=False)

    op.create_table(
        "results",
        sa.Column("trial", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("attempt", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("worker", sa.String(length=32), nullable=False),
        sa.Column("metrics", sa.JSON(), nullable=False),
        sa.Column("started", sa.Float(), nullable=False),
        sa.Column("finished", sa.Float(), nullable=False),
        sa.Column("wall_seconds", sa.Float(), nullable=False),
        sa.Column("cpu_seconds", sa.Float(), nullable=True),
        sa.Column("peak_memory_bytes", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["attempt"], ["attempts.id"], name=op.f("fk_results_attempt")),
        sa.ForeignKeyConstraint(["trial"], ["trials.id"], name=op.f("fk_results_trial")),
        sa.ForeignKeyConstraint(["worker"], ["workers.id"], name=op.f("fk_results_worker")),
        sa.PrimaryKeyConstraint("trial", name=op.f("pk_results")),
    )
