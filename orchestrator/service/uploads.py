"""What a request may bring: specs, and the plug-ins beside them. Nothing of it is read or run in this process."""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from orchestrator.errors import RequestError
from orchestrator.service.access import Caller, ForbiddenError
from orchestrator.service.options import ServiceOptions
from orchestrator.service.orders import SpecOrder
from orchestrator.settings import Settings
from orchestrator.store.states import Role

MOST_OVERRIDES = 1000
MOST_PLUGINS = 50
SURROGATE = re.compile("[\ud800-\udfff]")


def _whole(text: str) -> str:
    """`text`, if it is. JSON can name halves of characters, which nothing can be made of."""
    if SURROGATE.search(text):
        raise ValueError("half a surrogate pair is no character")
    return text


Text = Annotated[str, AfterValidator(_whole)]
FileName = Annotated[Text, Field(min_length=1, max_length=1000)]


class SpecUpload(BaseModel):
    """A spec as text, never a path."""

    model_config = ConfigDict(extra="forbid")

    name: FileName = Field(description="what errors call the spec, and the answer: the name of its file")
    text: Text = Field(description="the spec, YAML")
    overrides: list[Text] = Field(
        default_factory=list, max_length=MOST_OVERRIDES, description='put on top of it: "path=value"'
    )
    plugins: dict[FileName, Text] = Field(
        default_factory=dict,
        max_length=MOST_PLUGINS,
        description="source of the files that it names under `plugins`, by the path that it gives them",
    )


def spec_orders(
    uploads: Sequence[SpecUpload], caller: Caller, settings: Settings, options: ServiceOptions
) -> tuple[SpecOrder, ...]:
    """`uploads` as planners read them, with their plug-ins saved.

    Raises RequestError for too much of anything, ForbiddenError for code that `caller` may not bring.
    """
    if len(uploads) > options.most_specs:
        raise RequestError(f"this request brings {len(uploads)} specs; expected {options.most_specs} at most")
    repeated = [name for name, count in Counter(one.name for one in uploads).items() if count > 1]
    if repeated:
        raise RequestError(
            f"several specs of this request are named `{repeated[0]}`; expected a name of its own for each"
        )
    if any(one.plugins for one in uploads):
        _refuse_code(uploads, caller, options)
    allowed = options.allow_plugins and caller.may(Role.SUBMITTER)
    barred = None
    if options.allow_plugins and not allowed:
        barred = (
            f"only submitters may name plug-ins; {caller.user}'s token has the role {caller.token.role}",
            "leave `plugins` out, or ask with a submitter's token",
        )
    return tuple(
        SpecOrder(
            name=one.name,
            text=one.text,
            overrides=tuple(one.overrides),
            plugins=_save(one.plugins, settings) if allowed and _may_name_code(one) else None,
            barred=barred,
        )
        for one in uploads
    )


def _refuse_code(uploads: Sequence[SpecUpload], caller: Caller, options: ServiceOptions) -> None:
    if not options.allow_plugins:
        raise ForbiddenError("this service takes no plug-ins: whoever runs it decides that (`serve --allow-plugins`)")
    if not caller.may(Role.SUBMITTER):
        raise ForbiddenError(
            f"only submitters may bring plug-ins; {caller.user}'s token has the role {caller.token.role}"
        )
    size = sum(len(source.encode()) for one in uploads for source in one.plugins.values())
    if size > options.plugin_bytes:
        raise RequestError(f"the plug-ins have {size:,} bytes; expected {options.plugin_bytes:,} at most")


def _may_name_code(upload: SpecUpload) -> bool:
    """Whether the spec may have the key `plugins`: it stands there as it is, unless a backslash hides it."""
    return bool(upload.plugins) or any("plugins" in text or "\\" in text for text in (upload.text, *upload.overrides))


def _save(plugins: Mapping[str, str], settings: Settings) -> dict[str, Path]:
    """Keep each file under the digest of its content; where, by the name that the spec gives it."""
    return {written: _save_one(PurePosixPath(written).name, source, settings) for written, source in plugins.items()}


def _save_one(name: str, source: str, settings: Settings) -> Path:
    if not re.fullmatch(r"[A-Za-z_]\w*\.py", name, re.ASCII):
        raise RequestError(f"plug-in `{name}` cannot be a module; expected letters, digits and underscores, then .py")
    content = source.encode()
    path = settings.home / "plugins" / hashlib.sha256(content).hexdigest()[:32] / name
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}.{os.urandom(4).hex()}")
        part.write_bytes(content)
        part.replace(path)
    return path
