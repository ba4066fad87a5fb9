"""Who is asking."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel

from orchestrator.service.access import Viewer
from orchestrator.store.states import Role

router = APIRouter(tags=["tokens"])


class Me(BaseModel):
    """Whose token came with the request, and what it allows."""

    user: str
    role: Role


@router.get("/me")
def who_am_i(caller: Viewer) -> Me:
    """Whose token this is."""
    return Me(user=caller.user, role=caller.token.role)
