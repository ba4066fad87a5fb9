"""The compiled log parsers beside drain3, accuracy and lines a second, on all Loghub systems that are here, in one run.

    make bench-logs

drain3 (0.9.11 or newer) is installed by pip into an environment made for this run. It is called as fast as it can be:
`Drain.add_log_message`, behind `LogMasker.mask` where it has masks, without what `TemplateMiner` does around them. Its
settings are its own (similarity 0.4, depth 4), without masks and with those its documentation recommends; then ours.
Our setting, OURS, is one for all systems; it was chosen on these very systems. Both read the same file of lines without
headers, UTF-8, from disk, one thread, a new parser each pass; what counts is the best CPU time of several passes, which
take turns. Accuracy is grouping accuracy on the 2,000 lines as published. `dp_parser` is our parser without a tree.

`repeated`: those lines 20 times over, for 2,000 are too few to time. `distinct`: as many, all digits drawn anew and no
line twice; names with digits then become new words, which opens templates that the systems do not have.
`no dictionary`: ours without keeping lines of late; a line that differs from one of these by what is masked alone is
otherwise not compared with templates again.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path
from typing import Any

import numpy as np

from models.log_masks import MARKS, pattern
from models.log_parsing import LogParserConfig, agreement
from models.mechanism import MECHANISMS
from tasks.catalogue import CORPORA
from tasks.corpora import folder_at_hand
from tasks.logs.parse import TemplateLog
from tasks.logs.source import Source
from tasks.recording import numbered
from tasks.workloads.loghub import HEADERS, corpus_name, read_rows

OURS: dict[str, Any] = {"name": "drain_parser", "similarity": 0.5, "depth": 5, "mask_numbers": True}
NOVELTY: dict[str, Any] = {"name": "dp_parser", "similarity": 0.7, "mask_addresses": True, "mask_numbers": True}
REPEATS, PASSES = 20, 3

RECOMMENDED = [
    [r"((?<=[^A-Za-z0-9])|^)(([0-9a-f]{2,}:){3,}([0-9a-f]{2,}))((?=[^A-Za-z0-9])|$)", "ID"],
    [r"((?<=[^A-Za-z0-9])|^)(\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3})((?=[^A-Za-z0-9])|$)", "IP"],
    [r"((?<=[^A-Za-z0-9])|^)([0-9a-f]{6,} ?){3,}((?=[^A-Za-z0-9])|$)", "SEQ"],
    [r"((?<=[^A-Za-z0-9])|^)([0-9A-F]{4} ?){4,}((?=[^A-Za-z0-9])|$)", "SEQ"],
    [r"((?<=[^A-Za-z0-9])|^)(0x[a-f0-9A-F]+)((?=[^A-Za-z0-9])|$)", "HEX"],
    [r"((?<=[^A-Za-z0-9])|^)([\-\+]?\d+)((?=[^A-Za-z0-9])|$)", "NUM"],
    [r"(?<=executed cmd )(\".+?\")", "CMD"],
]
"""As in the configuration that drain3's examples come with."""

RIVALS: dict[str, dict[str, Any]] = {
    "drain3": {"masks": [], "similarity": 0.4, "depth": 4},
    "drain3, its masks": {"masks": RECOMMENDED, "similarity": 0.4, "depth": 4},
    "drain3, our setting": {
        "masks": [[pattern("numbers"), MARKS["numbers"].strip("<>")]], "similarity": 0.5, "depth": 5,
    },
}  # fmt: skip

RIVAL = """
import json, sys, time
from drain3.drain import Drain
from drain3.masking import LogMasker, MaskingInstruction
asked = json.loads(sys.argv[1])
masker = LogMasker([MaskingInstruction(*one) for one in asked["masks"]], "<", ">") if asked["masks"] else None
began = time.process_time()
parser, groups = Drain(depth=asked["depth"], sim_th=asked["similarity"]), []
with open(asked["path"], encoding="utf-8", newline="\\n") as file:
    for line in file:
        groups.append(parser.add_log_message(masker.mask(line) if masker else line)[0].cluster_id)
print(json.dumps([time.process_time() - began, groups[:2000]]))
"""


def systems_here() -> list[str]:
    """Systems whose lines are at hand, without fetching anything."""
    return [system for system in HEADERS if folder_at_hand(CORPORA[corpus_name(system, False)]) is not None]


def drain3_python(folder: Path) -> Path:
    """Python of a new environment with drain3."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "drain3>=0.9.11"], check=True, stderr=subprocess.DEVNULL)
    return python


def distinct(lines: list[str], count: int) -> list[str]:
    """Lines with all digits drawn anew, none twice, in the order of `lines` again and again; `count` at the most."""
    draw, made = random.Random(0), dict.fromkeys(lines)
    for _ in range(4 * count // len(lines)):
        for line in lines:
            made["".join(draw.choice("0123456789") if c.isdigit() else c for c in line)] = None
            if len(made) == count:
                return list(made)
    return list(made)


def ours(path: Path, fields: dict[str, Any], dictionary: bool = True) -> tuple[float, list[int]]:
    """CPU seconds of a pass, and the templates of the first 2,000 lines."""
    config = MECHANISMS.config_class(fields["name"]).model_validate(fields)
    assert isinstance(config, LogParserConfig)
    with path.open("rb") as file:
        began = time.process_time()
        log = TemplateLog(config, 0)
        if not dictionary:
            parser = log.reader.parser
            parser.tables = parser.tables._replace(known=np.full((1, 3), -1, dtype=np.int64))
        blocks = Source(file, str(path)).blocks()
        groups = [log.read(np.frombuffer(block, dtype=np.uint8)) for block in blocks]
        seconds = time.process_time() - began
    return seconds, np.concatenate(groups)[:2000].tolist()


def passes(python: Path, path: Path, rivals: list[str]) -> dict[str, tuple[float, list[int]]]:
    """The best pass over `path` of each contestant, by name; they take turns."""
    best: dict[str, tuple[float, list[int]]] = {}
    for _ in range(PASSES):
        for name in rivals:
            asked = json.dumps({**RIVALS[name], "path": str(path)})
            ran = subprocess.run([python, "-c", RIVAL, asked], capture_output=True, text=True, check=True)
            seconds, groups = json.loads(ran.stdout)
            best[name] = min(best.get(name, (seconds, groups)), (seconds, groups))
        for name, fields, dictionary in (
            ("ours", OURS, True), ("no dictionary", OURS, False), ("dp_parser", NOVELTY, True),
        ):  # fmt: skip
            taken = ours(path, fields, dictionary)
            best[name] = min(best.get(name, taken), taken)
    return best


def main() -> None:
    """Print a table: accuracy, then lines a second on repeated and on distinct lines; then means."""
    systems = systems_here()
    names = [*RIVALS, "ours", "dp_parser"]
    accuracy: dict[str, list[float]] = {name: [] for name in names}
    speed: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        python = drain3_python(Path(folder) / "drain3")
        path = Path(folder) / "lines.log"
        path.write_text("a line\n")
        ours(path, OURS)  # compiled once, before any time counts
        for system in systems:
            rows = read_rows(system, corrected=False)
            lines, items = [row["Content"] for row in rows], numbered([row["EventId"] for row in rows])
            for kind, stream in (("repeated", lines * REPEATS), ("distinct", distinct(lines, len(lines) * REPEATS))):
                path.write_text("".join(f"{line}\n" for line in stream), encoding="utf-8")
                for name, (seconds, groups) in passes(python, path, list(RIVALS)).items():
                    speed.setdefault((kind, name), []).append(len(stream) / seconds)
                    if kind == "repeated" and name in accuracy:
                        accuracy[name].append(agreement(np.array(groups), items)[0])
            print_system(system, accuracy, speed)
    print_means(len(systems), accuracy, speed)


def print_system(system: str, accuracy: dict[str, list[float]], speed: dict[tuple[str, str], list[float]]) -> None:
    """The last figures, those of `system`."""
    print(f"{system}: accuracy, lines/s repeated, lines/s distinct")
    for name, values in accuracy.items():
        repeated, other = speed["repeated", name][-1], speed["distinct", name][-1]
        print(f"  {name:20} {values[-1]:.3f} {repeated:12,.0f} {other:12,.0f}")
    print(f"  {'ours, no dictionary':26} {speed['repeated', 'no dictionary'][-1]:12,.0f}", end="")
    print(f" {speed['distinct', 'no dictionary'][-1]:12,.0f}", flush=True)


def print_means(count: int, accuracy: dict[str, list[float]], speed: dict[tuple[str, str], list[float]]) -> None:
    """Means over systems: of accuracy, and how many times as fast as drain3 ours is (geometric)."""
    print(f"mean accuracy over {count} systems: ", ", ".join(f"{n} {np.mean(a):.4f}" for n, a in accuracy.items()))
    for kind in ("repeated", "distinct"):
        for mine in ("ours", "no dictionary", "dp_parser"):
            for rival in RIVALS:
                ratios = np.array(speed[kind, mine]) / np.array(speed[kind, rival])
                print(
                    f"{kind} lines: {mine} is {np.exp(np.log(ratios).mean()):.1f} times as fast as {rival} "
                    f"({ratios.min():.1f} to {ratios.max():.1f})"
                )


if __name__ == "__main__":
    sys.exit(main())
