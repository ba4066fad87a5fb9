"""A thousand specs that are wrong in every way there is: each is refused with places, and nothing else suffers."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from orchestrator.store.states import Role
from tests.orchestrator.service.conftest import API, Service, StartService
from tests.orchestrator.service.malformed import malformed
from tests.orchestrator.specs import SMALL

COUNT = 1000
SEED = 20260
AT_ONCE = 50


@pytest.mark.slow
def test_a_thousand_malformed_specs_are_refused_at_their_places(start_service: StartService) -> None:
    outcomes: Counter[int] = Counter()
    with start_service(most_trials=10_000) as service:
        headers = service.headers(Role.SUBMITTER)
        for number, (what, text) in enumerate(malformed(COUNT, SEED)):
            request = {"specs": [{"name": f"{number}.yaml", "text": text}]}
            answer = service.client.post(f"{API}/sweeps", headers=headers, json=request)
            outcomes[answer.status_code] += 1
            assert answer.status_code in (201, 400, 422), (what, number, answer.text[:500])
            if answer.status_code == 422:
                problems = answer.json()["problems"]
                assert problems, (what, number, answer.text[:500])
                assert all(_has_place(problem, f"{number}.yaml", text) for problem in problems), (
                    what,
                    number,
                    problems,
                )
        assert outcomes[422] > COUNT / 2, outcomes
        assert service.client.get("/health").status_code == 200
        assert len(service.store.sweeps()) == outcomes[201]
        good = {"specs": [{"name": "good.yaml", "text": SMALL}]}
        assert service.client.post(f"{API}/sweeps", headers=headers, json=good).status_code == 201


def _has_place(problem: dict[str, object], name: str, text: str) -> bool:
    line, column = problem["line"], problem["column"]
    assert isinstance(line, int)
    assert isinstance(column, int)
    return problem["file"] == name and 1 <= line <= text.count("\n") + text.count("\r") + 1 and column >= 1


DEEP = "[" * 100_000

BODIES = {
    "nothing": b"",
    "no JSON": b"{",
    "not UTF-8": b'{"specs": [{"name": "\xff", "text": ""}]}',
    "half a surrogate pair": b'{"specs": [{"name": "a", "text": "\\ud800"}]}',
    "half a pair in a name": b'{"specs": [{"name": "\\udc00", "text": "a: b"}]}',
    "deep": DEEP.encode(),
    "deep and whole": (DEEP + "]" * len(DEEP)).encode(),
    "not a number": b'{"specs": [{"name": "a", "text": "a: b"}], "wait": NaN}',
    "infinite": b'{"specs": [{"name": "a", "text": "a: b"}], "wait": 1e999}',
    "a huge number": b'{"specs": [{"name": "a", "text": "a: b"}], "wait": ' + b"9" * 5000 + b"}",
    "a list": b"[]",
    "no specs": b'{"specs": []}',
    "an unknown key": b'{"specs": [{"name": "a", "text": "a: b", "path": "/etc/passwd"}]}',
    "text that is no text": b'{"specs": [{"name": "a", "text": 1}]}',
    "a path": b'{"specs": [{"name": "/etc/passwd", "text": "/etc/passwd"}]}',
    "the same name twice": b'{"specs": [{"name": "a", "text": "a: b"}, {"name": "a", "text": "a: b"}]}',
    "pickle": b"\x80\x04\x95\x1b\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93\x94.",
    "many specs": json.dumps({"specs": [{"name": str(n), "text": SMALL} for n in range(51)]}).encode(),
    "many overrides": json.dumps({"specs": [{"name": "a", "text": SMALL, "overrides": ["a=b"] * 1001}]}).encode(),
    "odd overrides": json.dumps(
        {"specs": [{"name": "a", "text": SMALL, "overrides": ["", "=", "a.b", "\0=1", "seeds=\0", "~x=1"]}]}
    ).encode(),
    "too large": json.dumps({"specs": [{"name": "a", "text": "x" * 2**20}]}).encode(),
}


@pytest.mark.parametrize("route", ["sweeps", "plans"])
def test_bodies_that_are_none_are_refused(service: Service, route: str) -> None:
    headers = {**service.headers(Role.SUBMITTER), "Content-Type": "application/json"}
    for what, body in BODIES.items():
        answer = service.client.post(f"{API}/{route}", headers=headers, content=body)
        assert 400 <= answer.status_code < 500, (what, answer.status_code, answer.text[:300])
        assert answer.json()["message"], what
        assert "passwd:" not in answer.text
    assert service.store.sweeps() == []
