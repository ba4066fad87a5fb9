"""A database that is away is told of in one line, and is no defect of ours; anything else still is one."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.exc import SQLAlchemyError

from orchestrator.cli import app as command_line
from orchestrator.exit_codes import SYSTEM_FAILED
from orchestrator.store.engine import lost
from tests.orchestrator.service.conftest import API, StartService


@pytest.fixture
def away() -> Engine:
    """A database at a port where nobody listens."""
    return create_engine("postgresql+psycopg://somebody:secret@127.0.0.1:1/sweeps")


def error_of(engine: Engine, statement: str) -> SQLAlchemyError:
    with pytest.raises(SQLAlchemyError) as caught, engine.connect() as connection:
        connection.execute(text(statement))
    return caught.value


def test_who_is_away_is_told_from_what_is_wrong(away: Engine) -> None:
    told = lost(error_of(away, "SELECT 1"))
    assert told is not None
    assert told.startswith("the database does not answer: ")
    assert "secret" not in told
    sqlite = create_engine("sqlite://")
    assert lost(error_of(sqlite, "SELECT * FROM missing")) is None
    assert lost(error_of(sqlite, "no SQL")) is None
    assert lost(ValueError("of ours")) is None


def test_commands_end_with_one_line(
    away: Engine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command_line, "app", away.connect)
    with pytest.raises(SystemExit) as ended:
        command_line.main()
    assert ended.value.code == SYSTEM_FAILED
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("error: the database does not answer: ")


def test_the_service_says_that_it_is_away(
    away: Engine, start_service: StartService, monkeypatch: pytest.MonkeyPatch
) -> None:
    with start_service() as service:
        monkeypatch.setattr(service.store, "engine", away)
        answer = service.client.get(f"{API}/sweeps", headers={"Authorization": "Bearer slotsweep_unknown"})
    assert answer.status_code == 503
    assert answer.json()["message"].startswith("the database does not answer: ")
