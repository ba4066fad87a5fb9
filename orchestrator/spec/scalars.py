"""What an unquoted YAML scalar means: the core schema of YAML 1.2.2, section 10.3.2."""

from __future__ import annotations

import re

from orchestrator.spec.nodes import Atom

NULL = re.compile(r"null|Null|NULL|~|")
TRUE = re.compile(r"true|True|TRUE")
FALSE = re.compile(r"false|False|FALSE")
DECIMAL = re.compile(r"[-+]?[0-9]+")
OCTAL = re.compile(r"0o[0-7]+")
HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]+")
FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
INFINITE = re.compile(r"([-+]?)\.(inf|Inf|INF)")
NOT_A_NUMBER = re.compile(r"\.(nan|NaN|NAN)")
OCTAL_LOOKING = re.compile(r"[-+]?0[0-9]+")

LONGEST_NUMBER = 300
"""Longer digit strings are left as text: no option is that large, and no float."""


def resolve(text: str) -> Atom:
    """The value of an unquoted scalar; `1e-3` is a number, `off`, `no` and `yes` are text."""
    if NULL.fullmatch(text):
        return None
    if TRUE.fullmatch(text):
        return True
    if FALSE.fullmatch(text):
        return False
    return text if len(text) > LONGEST_NUMBER else _number(text)


def _number(text: str) -> Atom:
    if DECIMAL.fullmatch(text):
        return int(text)
    if OCTAL.fullmatch(text):
        return int(text, 8)
    if HEXADECIMAL.fullmatch(text):
        return int(text, 16)
    if FLOAT.fullmatch(text):
        return float(text)
    if match := INFINITE.fullmatch(text):
        return float(f"{match[1]}inf")
    if NOT_A_NUMBER.fullmatch(text):
        return float("nan")
    return text
