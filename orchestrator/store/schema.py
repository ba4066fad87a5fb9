"""The tables. The database is the only truth: Ray, MLflow, files and screens follow from it and can be rebuilt.

A trial is one row for a (key, generation), whoever asked for it; `sweep_trials` says which sweeps did. An attempt is
one execution of a batch under a lease; its id is the fencing token. A proposal is what a study wants to know of a cell;
its trials are the sweep's of that cell. An outlook is what whoever runs a sweep says of the rest of it; an event is
what webhooks tell of. Secrets are kept as their SHA-256 only. Times are seconds since the epoch, UTC, except
`leased_until`, which is on the lease clock named beside it.
"""

from __future__ import annotations

import time
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Connection,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    event,
    literal_column,
    text,
)

from orchestrator.store.states import REASONS, EventKind, Role, SweepState, TrialState
from orchestrator.store.triggers import trigger_statements

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

RowId = BigInteger().with_variant(Integer, "sqlite")


def _one_of(column: str, values: list[str], name: str) -> CheckConstraint:
    quoted = ", ".join(f"'{value}'" for value in values)
    return CheckConstraint(f"{column} IN ({quoted})", name=name)


code = Table(
    "code",
    metadata,
    Column("digest", String(32), primary_key=True),
    Column("archive", LargeBinary, nullable=False),
)

sweeps = Table(
    "sweeps",
    metadata,
    Column("id", String(16), primary_key=True),
    Column("name", Text, nullable=False),
    Column("kind", String(32), nullable=False),
    Column("state", String(16), nullable=False),
    Column("priority", Integer, nullable=False, default=0),
    Column("spec", JSON, nullable=False),
    Column("spec_text", Text, nullable=False),
    Column("spec_path", Text),
    Column("code", ForeignKey("code.digest"), nullable=False),
    Column("use_cache", Boolean, nullable=False),
    Column("infrastructure_retries", Integer, nullable=False, server_default="3"),
    Column("code_retries", Integer, nullable=False, server_default="0"),
    Column("trials", Integer, nullable=False),
    Column("reused", Integer, nullable=False),
    Column("software", JSON, nullable=False),
    Column("fingerprints", JSON(none_as_null=True)),
    Column("user", Text),
    Column("created", Float, nullable=False),
    Column("started", Float),
    Column("finished", Float),
    Column("report", Text),
    _one_of("state", list(SweepState), "state"),
)

cells = Table(
    "cells",
    metadata,
    Column("id", RowId, primary_key=True),
    Column("digest", String(64), nullable=False, unique=True),
    Column("kind", String(32), nullable=False),
    Column("workload", JSON, nullable=False),
    Column("mechanism", JSON, nullable=False),
    Column("episodes", Integer, nullable=False),
    Column("dtype", String(16), nullable=False),
    Column("device", String(16), nullable=False),
    Column("fingerprint", String(64), nullable=False),
    Column("machine", String(64)),
)

fingerprints = Table(
    "fingerprints",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("modules", JSON, nullable=False),
)

trials = Table(
    "trials",
    metadata,
    Column("id", RowId, primary_key=True),
    Column("key", String(32), nullable=False),
    Column("generation", Integer, nullable=False),
    Column("cell", ForeignKey("cells.id"), nullable=False),
    Column("seed", BigInteger, nullable=False),
    Column("state", String(16), nullable=False),
    Column("reason", String(16)),
    Column("message", Text),
    Column("attempts", Integer, nullable=False, default=0),
    Column("infrastructure_failures", Integer, nullable=False, default=0),
    Column("code_failures", Integer, nullable=False, default=0),
    Column("attempt", RowId),
    Column("batch_limit", Integer),
    UniqueConstraint("key", "generation"),
    _one_of("state", list(TrialState), "state"),
    CheckConstraint("reason IS NULL OR reason IN (" + ", ".join(f"'{r}'" for r in REASONS) + ")", name="reason"),
    CheckConstraint("(state = 'leased') = (attempt IS NOT NULL)", name="leased_by_an_attempt"),
    Index(None, "cell"),
    # A trial changes when it is leased and when it is done. In no index, and with room on its page, that costs Postgres
    # no new entry in any of them (heap-only tuples).
    postgresql_with={"fillfactor": 60},
)

sweep_trials = Table(
    "sweep_trials",
    metadata,
    Column("sweep", ForeignKey("sweeps.id"), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("trial", ForeignKey("trials.id"), nullable=False, index=True),
    Column("reused", Boolean, nullable=False),
)

proposals = Table(
    "proposals",
    metadata,
    Column("sweep", ForeignKey("sweeps.id"), primary_key=True),
    Column("study", Integer, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("batch", Integer, nullable=False),
    Column("params", JSON, nullable=False),
    Column("attributes", JSON, nullable=False),
    Column("cell", ForeignKey("cells.id")),
    Column("same_as", Integer),
    Column("enqueued", Boolean, nullable=False),
    Column("state", String(16), nullable=False),
    Column("error", Text),
    Column("seeds", Integer),
    Column("best", Boolean, nullable=False),
    _one_of("state", ["open", "complete", "stopped", "failed"], "state"),
)

hardware = Table(
    "hardware",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("record", JSON, nullable=False),
    Column("first_seen", Float, nullable=False),
)

workers = Table(
    "workers",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("hardware", ForeignKey("hardware.id"), nullable=False),
    Column("executor", String(16), nullable=False),
    Column("device", String(16), nullable=False),
    Column("pid", Integer, nullable=False),
    Column("state", String(16), nullable=False),
    Column("started", Float, nullable=False),
    Column("last_seen", Float, nullable=False),
    Column("agreement", JSON(none_as_null=True)),
)

orchestrators = Table(
    "orchestrators",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("host", Text, nullable=False),
    Column("boot", String(64), nullable=False),
    Column("pid", Integer, nullable=False),
    Column("process_started", Float, nullable=False),
    Column("started", Float, nullable=False),
)

attempts = Table(
    "attempts",
    metadata,
    Column("id", RowId, primary_key=True),
    Column("sweep", ForeignKey("sweeps.id"), nullable=False),
    Column("worker", ForeignKey("workers.id")),
    Column("orchestrator", ForeignKey("orchestrators.id")),
    Column("state", String(16), nullable=False),
    Column("trials", Integer, nullable=False),
    Column("stale", Integer, nullable=False, server_default="0"),
    Column("lease_clock", String(64), nullable=False),
    Column("leased_until", Float, nullable=False),
    Column("started", Float, nullable=False),
    Column("finished", Float),
    Column("reason", String(16)),
    Column("log", Text),
    _one_of("state", ["open", "done", "lost"], "state"),
    Index(
        "ix_attempts_open",
        "leased_until",
        sqlite_where=text("state = 'open'"),
        postgresql_where=text("state = 'open'"),
    ),
    sqlite_autoincrement=True,
)

is_open = attempts.c.state == literal_column("'open'")
"""Attempts that hold a lease. In letters, not as a parameter: so databases see that `ix_attempts_open` lists them."""

attempt_trials = Table(
    "attempt_trials",
    metadata,
    Column("attempt", ForeignKey("attempts.id"), primary_key=True),
    Column("trial", ForeignKey("trials.id"), primary_key=True, index=True),
)

results = Table(
    "results",
    metadata,
    Column("trial", ForeignKey("trials.id"), primary_key=True),
    Column("attempt", ForeignKey("attempts.id"), nullable=False),
    Column("worker", ForeignKey("workers.id"), nullable=False),
    Column("metrics", JSON, nullable=False),
    Column("started", Float, nullable=False),
    Column("finished", Float, nullable=False),
    Column("wall_seconds", Float, nullable=False),
    Column("cpu_seconds", Float),
    Column("peak_memory_bytes", BigInteger),
    Column("series", JSON(none_as_null=True)),
    Column("energy_joules", Float),
    Column("energy_reason", Text),
    Column("device_memory_bytes", BigInteger),
    Column("own_seconds", Float),
)

tracker_leases = Table(
    "tracker_leases",
    metadata,
    Column("sweep", ForeignKey("sweeps.id"), primary_key=True),
    Column("holder", String(32), nullable=False),
    Column("lease_clock", String(64), nullable=False),
    Column("leased_until", Float, nullable=False),
)

outbox = Table(
    "outbox",
    metadata,
    Column("id", RowId, primary_key=True),
    Column("sweep", ForeignKey("sweeps.id"), nullable=False),
    Column("trial", ForeignKey("trials.id")),
    Column("reused", Boolean, nullable=False, default=False),
    Column("noted", Float, default=time.time),
    Column("delivered", Float),
    Column("refused", Text),
    Index(
        "ix_outbox_undelivered",
        "sweep",
        "id",
        sqlite_where=text("delivered IS NULL"),
        postgresql_where=text("delivered IS NULL"),
    ),
    sqlite_autoincrement=True,
)

outlooks = Table(
    "outlooks",
    metadata,
    Column("sweep", ForeignKey("sweeps.id"), primary_key=True),
    Column("updated", Float, nullable=False),
    Column("seconds_left", Float),
    Column("waiting", Text),
    Column("growth", Text),
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", String(16), primary_key=True),
    Column("digest", String(64), nullable=False, unique=True),
    Column("user", Text, nullable=False),
    Column("role", String(16), nullable=False),
    Column("created", Float, nullable=False),
    Column("expires", Float),
    Column("last_used", Float),
    Column("revoked", Float),
    _one_of("role", list(Role), "role"),
)

sessions = Table(
    "sessions",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("token", ForeignKey("tokens.id"), nullable=False, index=True),
    Column("created", Float, nullable=False),
    Column("expires", Float, nullable=False),
)

service_leases = Table(
    "service_leases",
    metadata,
    Column("duty", String(32), primary_key=True),
    Column("holder", ForeignKey("orchestrators.id"), nullable=False),
    Column("lease_clock", String(64), nullable=False),
    Column("leased_until", Float, nullable=False),
)

events = Table(
    "events",
    metadata,
    Column("id", RowId, primary_key=True),
    Column("kind", String(16), nullable=False),
    Column("sweep", ForeignKey("sweeps.id")),
    Column("worker", ForeignKey("workers.id")),
    Column("at", Float, nullable=False),
    _one_of("kind", list(EventKind), "kind"),
    sqlite_autoincrement=True,
)

webhooks = Table(
    "webhooks",
    metadata,
    Column("name", String(320), primary_key=True),
    Column("since", RowId, nullable=False),
)

deliveries = Table(
    "deliveries",
    metadata,
    Column("event", ForeignKey("events.id"), primary_key=True),
    Column("webhook", ForeignKey("webhooks.name"), primary_key=True),
    Column("attempts", Integer, nullable=False),
    Column("next_attempt", Float),
    Column("delivered", Float),
    Column("error", Text),
)


@event.listens_for(metadata, "after_create")
def _create_triggers(_: MetaData, connection: Connection, **_options: Any) -> None:
    for statement in trigger_statements(connection.dialect.name):
        connection.exec_driver_sql(statement)
