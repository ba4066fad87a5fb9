"""Which mechanisms look at later tokens, told from their fields alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from models.config import MechanismConfig
from models.mechanism import MECHANISMS


def leaks_future(fields: Mapping[str, Any]) -> bool:
    """Whether outputs depend on later tokens of the mechanism with these fields: `name`, and all that is not default.

    Of one that is not known here, or takes no such fields, nobody can tell: False.
    """
    name = str(fields["name"])
    if name not in MECHANISMS:
        return False
    kind = MECHANISMS.config_class(name)
    if not issubclass(kind, MechanismConfig) or kind.leaks_future is MechanismConfig.leaks_future:
        return False  # whatever its fields
    own = {key: value for key, value in fields.items() if key not in kind.derived_fields}
    try:
        return kind.model_validate(own).leaks_future
    except ValidationError:
        return False
