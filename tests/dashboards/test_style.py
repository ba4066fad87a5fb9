"""Curves and text can be told apart: contrasts of WCAG 2.2, colour blindness, shapes."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import combinations
from types import ModuleType

import numpy as np
import pytest

from dashboards.rendering import TEMPLATES
from dashboards.style import DARK_COLOURS, LIGHT_COLOURS, MARKERS, styles

CSS = (TEMPLATES / "report.css").read_text(encoding="utf-8")

# Machado, Oliveira and Fernandes 2009, severity 1.0, on linear RGB.
# fmt: off
VISION = {
    "normal": np.eye(3),
    "protan": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                        [-0.003882, -0.048116, 1.051998]]),
    "deutan": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                        [-0.011820, 0.042940, 0.968881]]),
    "tritan": np.array([[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
                        [0.004733, 0.691367, 0.303900]]),
}
# fmt: on
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def linear(colour: str) -> np.ndarray:
    """A #rrggbb colour as linear RGB."""
    parts = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    """Linear RGB as CIE L*a*b*."""
    ratio = XYZ @ rgb / (XYZ @ np.ones(3))
    root = np.where(ratio > 0.008856, np.cbrt(ratio), 7.787 * ratio + 16 / 116)
    return np.array([116 * root[1] - 16, 500 * (root[0] - root[1]), 200 * (root[1] - root[2])])


def contrast(one: str, other: str) -> float:
    """Contrast ratio of WCAG 2.2."""
    dark, light = sorted(float(XYZ[1] @ linear(colour)) for colour in (one, other))
    return (light + 0.05) / (dark + 0.05)


def schemes() -> dict[str, dict[str, str]]:
    """The colours of each scheme in the style sheet, by name."""
    blocks = re.findall(r":root \{([^}]*)\}", CSS)
    return {
        name: dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", block))
        for name, block in zip(("light", "dark", "print"), blocks, strict=True)
    }


@pytest.mark.parametrize("name", ["light", "dark", "print"])
def test_text_meets_aa(name: str) -> None:
    colours = schemes()[name]
    pairs = [
        (ink, ground) for ink in ("text", "muted", "accent") for ground in ("bg", "card", "mark")
    ] + [("on-accent", "accent"), ("alert-text", "alert")]  # fmt: skip
    poor = {pair: round(contrast(*(colours[part] for part in pair)), 2) for pair in pairs}
    assert {pair: ratio for pair, ratio in poor.items() if ratio < 4.5} == {}


@pytest.mark.parametrize(
    ("name", "palette"), [("light", LIGHT_COLOURS), ("dark", DARK_COLOURS), ("print", LIGHT_COLOURS)]
)
def test_curves_meet_the_contrast_of_graphics(name: str, palette: tuple[str, ...]) -> None:
    assert min(contrast(colour, schemes()[name]["card"]) for colour in palette) >= 3


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("palette", [LIGHT_COLOURS, DARK_COLOURS], ids=["light", "dark"])
def test_colours_stay_apart_for_every_kind_of_sight(vision: str, palette: tuple[str, ...]) -> None:
    seen = [lab(np.clip(VISION[vision] @ linear(colour), 0, 1)) for colour in palette]
    assert min(np.linalg.norm(one - other) for one, other in combinations(seen, 2)) >= 12


def test_72_curves_differ_in_colour_or_shape(sample: ModuleType) -> None:
    panel = sample.crowd(curves=72, points=1, seeds=2)
    looks = [(style.colour, style.marker) for style in styles([panel]).values()]
    assert len(set(looks)) == 72
    assert len({marker.path for marker in MARKERS}) == len({marker.matplotlib for marker in MARKERS}) == len(MARKERS)


def test_a_label_looks_the_same_in_every_panel(sample: ModuleType) -> None:
    first, second = sample.panel(), sample.panel(seed=2)
    assert styles([first, replace(second, curves=second.curves[::-1])]) == styles([first])
