"""What the API answers when something cannot be done, as its OpenAPI document tells."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel, Field


class SpecProblem(BaseModel):
    """One thing that is wrong with a spec."""

    file: str = Field(description="what the request calls the spec, or the override that it is in")
    line: int = Field(ge=1)
    column: int = Field(ge=1)
    text: str = Field(description="the line, its beginning if it is long")
    message: str
    expected: str
    hint: str


class Trouble(BaseModel):
    """Why something cannot be done."""

    message: str
    problems: list[SpecProblem] = Field(description="those of a spec, in its order; none where it is not to blame")


TROUBLES: dict[int | str, dict[str, Any]] = {
    status: {"model": Trouble, "description": description}
    for status, description in {
        400: "the request asks for something that cannot be done",
        401: "no token came with it, or one that does not hold",
        403: "its token does not let this be done",
        404: "there is no such thing",
        413: "its body is too large",
        422: "it is not of this form, or the specs in it are wrong",
        429: "too many wrong tokens came from its address, or too many of its user's requests wait to be planned",
        503: "something that the service needs does not answer",
    }.items()
}
"""Answers that every route of the API may give."""


class Described(FastAPI):
    """An application whose document says that what cannot be done is told in JSON, whatever else a route answers in."""

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document."""
        document = super().openapi()
        told = {"application/json": {"schema": {"$ref": f"#/components/schemas/{Trouble.__name__}"}}}
        for path in document["paths"].values():
            for operation in path.values():
                for status, answer in operation["responses"].items():
                    if int(status) in TROUBLES:
                        answer["content"] = told
        return document
