"""Which fields of a mechanism have no part in what it does, told from the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from models.mechanism import MECHANISMS


def idle_fields(fields: Mapping[str, Any]) -> frozenset[str]:
    """Those options of a retrieval memory that are of other memories than the one with these `fields`.

    fields: of a mechanism, with its `name`; of one that is not known here nobody can tell
    """
    name = str(fields["name"])
    if name not in MECHANISMS or "memory" not in fields:
        return frozenset()
    from models.sequence.retrieval_config import OWN, RetrievalConfig

    if not issubclass(MECHANISMS.config_class(name), RetrievalConfig) or fields["memory"] not in OWN:
        return frozenset()
    bare = {"memory_width"} if fields.get("keys") == "bare" else set()
    return (RetrievalConfig.of_one_memory - set(OWN[fields["memory"]])) | bare
