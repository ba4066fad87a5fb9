"""What one dense triple-latent layer costs, forward and backward, beside a loop over tokens and an attention layer.

    python tests/benchmarks/recurrences.py [threads]

2,048 tokens a batch, d = 64, 4 heads, 16 numbers of state a head, float32, no dropout. `ours` is the model's own layer,
`released` one written as the released code is, `attention` torch's Transformer layer. Then the recurrence alone in each
form (`compiled` is a CPU's, `chunked` every other device's), and what associative reads cost beside torch's top-k of a
masked matrix. Times are medians, contestants by turns; on a shared machine quote the ratios.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from models.mechanisms.triple_latent import TripleLatentConfig
from models.sequence.lanes import Lanes
from models.sequence.recurrence import FORMS, Form, associative_read, triple_recurrence
from models.sequence.triple import Triple

TOKENS = 2048
LENGTHS = (128, 256, 512, 1024, 2048, 4096)


class ReleasedStyle(nn.Module):
    """The same layer as a loop over tokens: each is taken out of the sequences and its memories are made by einsum."""

    def __init__(self, width: int = 64, heads: int = 4, size: int = 16) -> None:
        super().__init__()
        self.heads, self.size = heads, size
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.factors = nn.ModuleList(nn.Linear(width, heads * size, bias=False) for _ in range(4))
        self.gates = nn.ModuleList(nn.Linear(width, heads) for _ in range(2))
        self.out = nn.Linear(heads * size, width, bias=False)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        u = self.norms[0](x)
        a, b, left, right = (torch.tanh(part(u)).unflatten(2, (self.heads, self.size)) for part in self.factors)
        keep, pair_keep = (torch.sigmoid(gate(u)) for gate in self.gates)
        state = x.new_zeros(len(x), self.heads, self.size)
        pairs = x.new_zeros(len(x), self.heads, self.size, self.size)
        reads = []
        for t in range(x.shape[1]):
            share = pair_keep[:, t, :, None, None]
            pairs = share * pairs + (1 - share) * torch.einsum("bhi,bhj->bhij", state, b[:, t])
            share = keep[:, t, :, None]
            state = share * state + (1 - share) * a[:, t]
            reads.append(torch.einsum("bhij,bhi->bhj", pairs, left[:, t]) * right[:, t])
        y = x + self.out(torch.stack(reads, dim=1).flatten(2))
        made: Tensor = y + self.feed(self.norms[1](y))
        return made

    def take(self, block: Triple) -> ReleasedStyle:
        """The weights of `block`, a model's own layer of one lane."""
        own = {name: weight[0] for name, weight in block.state_dict().items()}
        factors, gates = own["project.weight"].chunk(4), [own[f"gates.{part}"].chunk(2) for part in ("weight", "bias")]
        names = {"norms.0": "norm", "norms.1": "feed_norm", "feed.0": "feed.rise", "feed.2": "feed.fall"}
        parts = {f"{ours}.{part}": own[f"{name}.{part}"] for ours, name in names.items() for part in ("weight", "bias")}
        parts |= {f"factors.{i}.weight": weight for i, weight in enumerate(factors)} | {"out.weight": own["out.weight"]}
        parts |= {f"gates.{i}.{p}": two[i] for p, two in zip(("weight", "bias"), gates, strict=True) for i in range(2)}
        self.load_state_dict(parts)
        return self


def layers() -> dict[str, nn.Module]:
    """A layer of the model `triple_latent`, the same as released, and torch's Transformer layer."""
    block = Triple(TripleLatentConfig(dropout=0.0), Lanes([(0, 0)]))
    attention = nn.TransformerEncoderLayer(64, 4, 256, 0.0, "gelu", batch_first=True, norm_first=True)
    return {"released": ReleasedStyle().take(block), "ours": block, "attention": attention}


def output(layer: nn.Module, x: Tensor) -> Tensor:
    """What `layer` makes of `x` [B, T, d], causally."""
    if isinstance(layer, nn.TransformerEncoderLayer):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        made: Tensor = layer(x, src_mask=mask, is_causal=True)
    else:
        made = layer(x[None])[0] if isinstance(layer, Triple) else layer(x)
    return made


def layer_steps(tokens: int) -> dict[str, Callable[[], None]]:
    """Each layer's forward and backward pass of sequences of `tokens`."""
    torch.manual_seed(0)
    x = torch.randn(max(1, TOKENS // tokens), tokens, 64, requires_grad=True)
    towards = torch.randn_like(x)

    def step(layer: nn.Module) -> None:
        layer.zero_grad()
        x.grad = None
        output(layer, x).backward(towards)

    return {name: partial(step, layer) for name, layer in layers().items()}


def form_steps(tokens: int) -> dict[str, Callable[[], None]]:
    """The recurrence alone, forward and backward, in each form."""
    torch.manual_seed(0)
    rows = max(1, TOKENS // tokens)
    factors = torch.randn(rows, tokens, 4, 4, 16).tanh().requires_grad_()
    gates, towards = torch.randn(rows, tokens, 2, 4, requires_grad=True), torch.randn(rows, tokens, 4, 16)

    def step(form: Form) -> None:
        torch.autograd.grad(triple_recurrence(factors, gates, form=form), (factors, gates), towards)

    return {form: partial(step, form) for form in FORMS}


def read_steps(lanes: int, tokens: int, positions: Sequence[int] | None) -> dict[str, Callable[[], None]]:
    """Reads of 8 out of all entries forward and backward, keys being those of 64 ids: torch's top-k, then our forms."""
    torch.manual_seed(0)
    ids = torch.randint(64, (lanes, tokens))
    q, k, v = torch.randn(lanes, tokens, 64), torch.randn(64, 64)[ids], torch.randn(lanes, tokens, 64)
    for part in (q, k, v):
        part.requires_grad_()
    where = torch.arange(tokens) if positions is None else torch.tensor(positions)

    def step(read: Callable[[], Tensor]) -> None:
        torch.autograd.grad(read().sum(), (q, k, v))

    reads: dict[str, Callable[[], Tensor]] = {"torch.topk": partial(masked_read, q, k, v, where)}
    for form in FORMS:
        reads[form] = partial(associative_read, q, k, v, 8, positions=where, form=form)
    return {name: partial(step, read) for name, read in reads.items()}


def masked_read(q: Tensor, k: Tensor, v: Tensor, where: Tensor) -> Tensor:
    """The plain parallel form: all cosines, those not readable masked, torch's top-k (ties as it likes)."""
    cosines = normalize(q[:, where], dim=-1) @ normalize(k, dim=-1).mT / 8.0
    cosines = cosines.masked_fill(torch.arange(k.shape[1]) > where[:, None] - 2, -torch.inf)
    best, entries = cosines.topk(8, dim=-1)
    weights = (8.0 * best).softmax(-1).nan_to_num(0.0)
    return torch.zeros_like(cosines).scatter(-1, entries, weights) @ v


def medians(steps: dict[str, Callable[[], None]], rounds: int) -> dict[str, float]:
    """Median milliseconds of each step; the steps take turns, so that what else the machine does meets all alike.

    On one thread its own time counts, not that of others between.
    """
    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    times: dict[str, list[float]] = {name: [] for name in steps}
    for i in range(rounds + 2):
        for name, step in steps.items():
            began = clock()
            step()
            if i >= 2:
                times[name].append(1e3 * (clock() - began))
    return {name: statistics.median(spent) for name, spent in times.items()}


def print_table(title: str, base: str, steps: Callable[[int], dict[str, Callable[[], None]]]) -> None:
    """A row for each length: milliseconds, and times as fast as `base`."""
    print(title)
    for tokens in LENGTHS:
        spent = medians(steps(tokens), 5 if tokens > 1024 else 9)
        row = "  ".join(f"{name} {ms:7.1f} ({spent[base] / ms:5.1f}x)" for name, ms in spent.items())
        print(f"T={tokens:5d}  {row}", flush=True)


def main(threads: int) -> None:
    """Print all tables."""
    torch.set_num_threads(threads)
    about = f"{TOKENS} tokens a batch, {threads} threads: ms (times as fast as"
    print_table(f"dense layer, {about} the released style)", "released", layer_steps)
    print_table(f"its recurrence, {about} plain loops)", "reference", form_steps)
    print("associative read of 8, 32 lanes, 128 tokens: ms (times as fast as torch.topk)")
    for label, positions in (("all positions", None), ("the last only", [127])):
        spent = medians(read_steps(32, 128, positions), 9)
        base = spent["torch.topk"]
        print(f"{label}  " + "  ".join(f"{name} {ms:.2f} ({base / ms:.1f}x)" for name, ms in spent.items()))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
