"""Tokens of the service's users, for admins."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, ConfigDict, Field

from orchestrator.service.access import Admin, StoreOf, attempts_of
from orchestrator.store.access import MOST_DAYS, TokenRow, token_seconds
from orchestrator.store.states import Role

router = APIRouter(prefix="/tokens", tags=["tokens"])


class Token(BaseModel):
    """A token without its secret. Times are seconds since the epoch; null: never."""

    id: str
    user: str
    role: Role
    state: str = Field(description="active, expired or revoked")
    created: float
    expires: float | None
    last_used: float | None
    revoked: float | None

    @classmethod
    def of(cls, row: TokenRow) -> Token:
        """The token that is stored as `row`."""
        return cls(**vars(row), state=row.state)


class NewToken(BaseModel):
    """A token to be made."""

    model_config = ConfigDict(extra="forbid")

    user: str = Field(
        description="whose it is: letters, digits and . _ - + @",
        json_schema_extra={"pattern": r"^[\w.@+-]+$", "minLength": 1, "maxLength": 100},
    )
    role: Role = Field(
        Role.SUBMITTER, description="viewer: looks; submitter: submits sweeps and steers their own; admin: everything"
    )
    days: float | None = Field(
        None,
        description="how long it holds; null: until it is revoked",
        json_schema_extra={"exclusiveMinimum": 0, "maximum": MOST_DAYS},
    )


class MadeToken(Token):
    """A token that was just made."""

    token: str = Field(description="its secret, which is told only now: only its hash is kept")


@router.get("")
def list_tokens(_: Admin, store: StoreOf) -> list[Token]:
    """Every token, newest first."""
    return [Token.of(row) for row in store.tokens()]


@router.post("", status_code=201)
def create_token(_: Admin, store: StoreOf, asked: NewToken) -> MadeToken:
    """Make a token. Its secret is told in this answer and never again."""
    row, secret = store.create_token(asked.user, asked.role, token_seconds(asked.days))
    return MadeToken(**vars(Token.of(row)), token=secret)


@router.delete("/{token}")
def revoke_token(
    request: Request, _: Admin, store: StoreOf, token: Annotated[str, Path(max_length=100, description="its id")]
) -> Token:
    """Let a token hold no more, nor any session that began with it. What is so already is no error."""
    revoked = Token.of(store.revoke_token(token))
    attempts_of(request).forget(token)
    return revoked
