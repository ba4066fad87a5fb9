"""Who may use the service: tokens, and the sessions that pages begin with one. Secrets are stored as hashes only."""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from dataclasses import dataclass

from sqlalchemy import ColumnElement, delete, insert, or_, select, update

from orchestrator.errors import NotThereError, RequestError
from orchestrator.spec.problems import visible
from orchestrator.store import schema
from orchestrator.store.base import StorePart
from orchestrator.store.engine import reading, write_at_once
from orchestrator.store.states import Role

PREFIX = "slotsweep_"
"""How a token begins, so that scanners for leaked secrets know one."""

USER = re.compile(r"[\w.@+-]{1,100}")
"""A name of a user."""

DAY_SECONDS = 86_400.0
MOST_DAYS = 36_500

SEEN_SECONDS = 60.0
"""How exactly the last use of a token is noted."""


@dataclass(frozen=True)
class TokenRow:
    """A token without its secret. Times are seconds since the epoch; None: never."""

    id: str
    user: str
    role: Role
    created: float
    expires: float | None
    last_used: float | None
    revoked: float | None

    @property
    def state(self) -> str:
        """active, expired or revoked."""
        if self.revoked is not None:
            return "revoked"
        return "expired" if self.expires is not None and self.expires <= time.time() else "active"


class Access(StorePart):
    """The part of the store that knows tokens and sessions."""

    def create_token(self, user: str, role: Role, seconds: float | None = None) -> tuple[TokenRow, str]:
        """A new token for `user` that holds for `seconds` (None: until revoked), and its secret, told only now.

        Raises RequestError unless `user` is a word.
        """
        if not USER.fullmatch(user):
            raise RequestError(f"`{visible(user)}` is no name of a user; expected letters, digits and . _ - + @")
        now = time.time()
        secret = PREFIX + secrets.token_urlsafe(32)
        row = TokenRow(
            id=secrets.token_hex(4),
            user=user,
            role=role,
            created=now,
            expires=None if seconds is None else now + seconds,
            last_used=None,
            revoked=None,
        )
        with self.engine.begin() as connection:
            connection.execute(insert(schema.tokens), {**vars(row), "digest": digest_of(secret)})
        return row, secret

    def tokens(self) -> list[TokenRow]:
        """Every token, newest first."""
        with reading(self.engine) as connection:
            rows = connection.execute(select(*_SHOWN).order_by(schema.tokens.c.created.desc(), schema.tokens.c.id))
            return [_token(row) for row in rows.mappings()]

    def token_of(self, secret: str) -> TokenRow | None:
        """The token whose secret this is, if it is active; its use is noted."""
        with reading(self.engine) as connection:
            found = (
                connection.execute(select(*_SHOWN).where(schema.tokens.c.digest == digest_of(secret), _is_active()))
                .mappings()
                .first()
            )
        if found is None:
            return None
        self._note_use(_token(found))
        return _token(found)

    def revoke_token(self, identity: str) -> TokenRow:
        """Let a token (an id) hold no more, nor the sessions that began with it. Raises NotThereError."""
        columns = schema.tokens.c
        with self.engine.begin() as connection:
            connection.execute(
                update(schema.tokens)
                .where(columns.id == identity, columns.revoked.is_(None))
                .values(revoked=time.time())
            )
            connection.execute(delete(schema.sessions).where(schema.sessions.c.token == identity))
            row = connection.execute(select(*_SHOWN).where(columns.id == identity)).mappings().first()
        if row is None:
            raise NotThereError(f"there is no token `{identity}`: `slotsweep token list` lists them")
        return _token(row)

    def open_session(self, token: str, seconds: float) -> str:
        """Begin a session of the token (an id); its secret. Sessions that have run out are forgotten."""
        now = time.time()
        secret = secrets.token_urlsafe(32)
        row = {"digest": digest_of(secret), "token": token, "created": now, "expires": now + seconds}
        with self.engine.begin() as connection:
            connection.execute(delete(schema.sessions).where(schema.sessions.c.expires <= now))
            connection.execute(insert(schema.sessions), row)
        return secret

    def session_token(self, secret: str) -> TokenRow | None:
        """The token with which a session began, if both still hold."""
        sessions = schema.sessions.c
        query = (
            select(*_SHOWN)
            .join(schema.sessions, sessions.token == schema.tokens.c.id)
            .where(sessions.digest == digest_of(secret), sessions.expires > time.time(), _is_active())
        )
        with reading(self.engine) as connection:
            row = connection.execute(query).mappings().first()
        return None if row is None else _token(row)

    def close_session(self, secret: str) -> None:
        """End a session."""
        with self.engine.begin() as connection:
            connection.execute(delete(schema.sessions).where(schema.sessions.c.digest == digest_of(secret)))

    def _note_use(self, token: TokenRow) -> None:
        """Now and then. Whoever only looks waits for nobody who writes: then it is noted the next time."""
        now = time.time()
        if token.last_used is None or now - token.last_used > SEEN_SECONDS:
            write_at_once(
                self.engine, update(schema.tokens).where(schema.tokens.c.id == token.id).values(last_used=now)
            )


def token_seconds(days: float | None) -> float | None:
    """For how long a token of so many days holds. Raises RequestError for what is no number of days."""
    if days is None:
        return None
    if not 0 < days <= MOST_DAYS:
        raise RequestError(f"a token cannot hold for {days:g} days; expected more than 0 and at most {MOST_DAYS:,}")
    return days * DAY_SECONDS


def digest_of(secret: str) -> str:
    """What is stored of a secret. It has 256 random bits, so that a plain hash of it cannot be searched."""
    return hashlib.sha256(secret.encode()).hexdigest()


_SHOWN = [column for column in schema.tokens.c if column.name != "digest"]


def _is_active() -> ColumnElement[bool]:
    columns = schema.tokens.c
    return columns.revoked.is_(None) & or_(columns.expires.is_(None), columns.expires > time.time())


def _token(row: object) -> TokenRow:
    fields = dict(row)  # type: ignore[call-overload]
    return TokenRow(**{**fields, "role": Role(fields["role"])})
