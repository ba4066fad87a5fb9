"""What routes share that take specs in."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request

from orchestrator.service.options import ServiceOptions
from orchestrator.settings import Settings

T = TypeVar("T")


async def _settings_of(request: Request) -> Settings:
    settings: Settings = request.app.state.settings
    return settings


async def _options_of(request: Request) -> ServiceOptions:
    options: ServiceOptions = request.app.state.options
    return options


SettingsOf = Annotated[Settings, Depends(_settings_of)]
OptionsOf = Annotated[ServiceOptions, Depends(_options_of)]


def readable_folders(options: ServiceOptions) -> tuple[Path, ...]:
    """Folders that files named by specs must lie in."""
    data = os.environ.get("SLOTSWEEP_DATA")
    return (*options.data_folders, *((Path(data).resolve(),) if data else ()))


async def unless_gone(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """What `work` gives. It is cancelled as soon as whoever asked has gone, for nobody would learn what came of it.

    Raises GoneError then.
    """
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(_until_gone(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise GoneError
    finally:
        for one in (task, gone):
            one.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(task, gone, return_exceptions=True)


async def _until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


class GoneError(Exception):
    """Whoever asked has gone."""
