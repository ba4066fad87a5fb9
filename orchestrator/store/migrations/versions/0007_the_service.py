"""What the service keeps: tokens, sessions, who has which duty, outlooks, events and their deliveries."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

ROW_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.add_column("outbox", sa.Column("noted", sa.Float(), nullable=True))
    op.create_table(
        "outlooks",
        sa.Column("sweep", sa.String(16), nullable=False),
        sa.Column("updated", sa.Float(), nullable=False),
        sa.Column("seconds_left", sa.Float(), nullable=True),
        sa.Column("waiting", sa.Text(), nullable=True),
        sa.Column("growth", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["sweep"], ["sweeps.id"], name=op.f("fk_outlooks_sweep")),
        sa.PrimaryKeyConstraint("sweep", name=op.f("pk_outlooks")),
    )
    op.create_table(
        "tokens",
        sa.Column("id", sa.String(16), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("created", sa.Float(), nullable=False),
        sa.Column("expires", sa.Float(), nullable=True),
        sa.Column("last_used", sa.Float(), nullable=True),
        sa.Column("revoked", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
        sa.UniqueConstraint("digest", name=op.f("uq_tokens_digest")),
        sa.CheckConstraint("role IN ('viewer', 'submitter', 'admin')", name=op.f("ck_tokens_role")),
    )
    op.create_table(
        "sessions",
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("token", sa.String(16), nullable=False),
        sa.Column("created", sa.Float(), nullable=False),
        sa.Column("expires", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["token"], ["tokens.id"], name=op.f("fk_sessions_token")),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_sessions")),
    )
    op.create_index(op.f("ix_sessions_token"), "sessions", ["token"])
    op.create_table(
        "service_leases",
        sa.Column("duty", sa.String(32), nullable=False),
        sa.Column("holder", sa.String(32), nullable=False),
        sa.Column("lease_clock", sa.String(64), nullable=False),
        sa.Column("leased_until", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["holder"], ["orchestrators.id"], name=op.f("fk_service_leases_holder")),
        sa.PrimaryKeyConstraint("duty", name=op.f("pk_service_leases")),
    )
    op.create_table(
        "events",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("sweep", sa.String(16), nullable=True),
        sa.Column("worker", sa.String(32), nullable=True),
        sa.Column("at", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["sweep"], ["sweeps.id"], name=op.f("fk_events_sweep")),
        sa.ForeignKeyConstraint(["worker"], ["workers.id"], name=op.f("fk_events_worker")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_events")),
        sa.CheckConstraint("kind IN ('done', 'failed', 'cancelled', 'quarantined')", name=op.f("ck_events_kind")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "webhooks",
        sa.Column("name", sa.String(320), nullable=False),
        sa.Column("since", ROW_ID, nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_webhooks")),
    )
    op.create_table(
        "deliveries",
        sa.Column("event", ROW_ID, nullable=False),
        sa.Column("webhook", sa.String(320), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_attempt", sa.Float(), nullable=True),
        sa.Column("delivered", sa.Float(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["event"], ["events.id"], name=op.f("fk_deliveries_event")),
        sa.ForeignKeyConstraint(["webhook"], ["webhooks.name"], name=op.f("fk_deliveries_webhook")),
        sa.PrimaryKeyConstraint("event", "webhook", name=op.f("pk_deliveries")),
    )
