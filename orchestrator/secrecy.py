"""Keeping secrets out of what people and machines are told: errors, logs, findings, answers."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

HIDDEN = "***"

PASSWORDS = (
    re.compile(r"(://[^\s:/@'\"]*:)[^\s'\"]+(?=@)"),
    re.compile(r"([?&](?:password|sslpassword|token)=)[^\s&'\"]+", re.IGNORECASE),
)
"""Passwords in URLs. The first goes to the last `@`: a password may hold one that was not escaped."""

SECRET_VARIABLES = (
    "SLOTSWEEP_TOKEN",
    "SLOTSWEEP_WEBHOOK_SECRET",
    "MLFLOW_TRACKING_PASSWORD",
    "MLFLOW_TRACKING_TOKEN",
    "RAY_AUTH_TOKEN",
)
"""Variables of the environment that hold a secret and nothing else."""

SHORTEST = 6
"""Characters of the shortest secret that is looked for as it is: a shorter one would hide words."""


def environment_secrets() -> tuple[str, ...]:
    """The secrets of this process's environment."""
    found = (os.environ.get(variable, "") for variable in SECRET_VARIABLES)
    return tuple(secret for secret in found if len(secret) >= SHORTEST)


def without_secrets(text: str, secrets: Sequence[str] | None = None) -> str:
    """`text` without passwords in URLs, and without `secrets`: of this process's environment, if none are given."""
    if "://" in text:
        for password in PASSWORDS:
            text = password.sub(rf"\1{HIDDEN}", text)
    for secret in environment_secrets() if secrets is None else secrets:
        text = text.replace(secret, HIDDEN)
    return text
