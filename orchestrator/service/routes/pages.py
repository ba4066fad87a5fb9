"""All pages, and what belongs to them. They are no part of the API: programs have `/api/v1`."""

from __future__ import annotations

from fastapi import APIRouter, Depends

from orchestrator.service.access import page_caller, requiring
from orchestrator.service.routes import login, static, study_pages, sweep_files, sweep_list, sweep_pages
from orchestrator.store.states import Role

router = APIRouter(include_in_schema=False)
for part in (static, login):
    router.include_router(part.router)
for part in (sweep_list, sweep_files, sweep_pages, study_pages):
    router.include_router(part.router, dependencies=[Depends(requiring(Role.VIEWER, page_caller))])
