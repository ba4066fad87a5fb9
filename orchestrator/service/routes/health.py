"""Whether the service is there: the only thing that it tells everybody."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel

router = APIRouter(tags=["health"])


class Health(BaseModel):
    """The service answers."""

    status: Literal["ok"] = "ok"


@router.get("/health")
def health() -> Health:
    """Whether the service answers. Needs no token."""
    return Health()
