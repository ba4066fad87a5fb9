"""What one dense triple-latent layer costs, forward and backward, by the form that its two recurrences take.

    python tests/benchmarks/recurrences.py [threads]

2,048 tokens a batch, d = 64, 4 heads, 16 numbers of state a head, float32, no dropout. The plain loop is what the
released code does; `compiled` is a CPU's form, `chunked` every other device's. Then what associative reads cost beside
torch's top-k of a masked matrix. Times are medians, the forms by turns; on a shared machine quote the ratios.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, logsigmoid, normalize, pad

from models.sequence.recurrence import FORMS, Form, associative_read, decayed_sum, linear_attention

TOKENS = 2048
LENGTHS = (128, 256, 512, 1024, 2048, 4096)


class DenseLayer(nn.Module):
    """x + W_o r, and then + FFN, of arXiv 2606.05175: r reads pairs (s_{t-1}, b_t), s being a decayed sum of a."""

    def __init__(self, width: int = 64, heads: int = 4, size: int = 16) -> None:
        super().__init__()
        self.heads, self.size = heads, size
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.factors = nn.Linear(width, 4 * heads * size, bias=False)
        self.gates = nn.Linear(width, 2 * heads)
        self.out = nn.Linear(heads * size, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor, form: Form) -> Tensor:
        u = self.norms[0](x)
        a, b, left, right = self.by_head(self.factors(u).tanh(), 4)
        keep_s, keep_p = self.by_head(self.gates(u), 2).squeeze(3)
        s = decayed_sum(a * torch.sigmoid(-keep_s)[..., None], logsigmoid(keep_s), form=form)
        before = pad(s[:, :-1], (0, 0, 1, 0))
        read, _ = linear_attention(left, before, b * torch.sigmoid(-keep_p)[..., None], logsigmoid(keep_p), form=form)
        read = (read * right).unflatten(0, (len(x), self.heads)).transpose(1, 2).flatten(2)
        y = x + self.out(read)
        return y + self.down(gelu(self.up(self.norms[1](y))))

    def by_head(self, parts: Tensor, count: int) -> Tensor:
        """[B, T, count * heads * n] as [count, B * heads, T, n]."""
        return parts.unflatten(2, (count, self.heads, -1)).permute(2, 0, 3, 1, 4).flatten(1, 2)


def layer_steps(tokens: int) -> dict[Form, Callable[[], None]]:
    """One layer's forward and backward pass of sequences of `tokens`, in each form."""
    torch.manual_seed(0)
    layer = DenseLayer()
    x = torch.randn(max(1, TOKENS // tokens), tokens, 64, requires_grad=True)
    towards = torch.randn_like(x)

    def step(form: Form) -> None:
        layer.zero_grad()
        x.grad = None
        layer(x, form).backward(towards)

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
    """Median milliseconds of each step; the steps take turns, so that what else the machine does meets all alike."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for i in range(rounds + 2):
        for name, step in steps.items():
            began = time.perf_counter()
            step()
            if i >= 2:
                times[name].append(1e3 * (time.perf_counter() - began))
    return {name: statistics.median(spent) for name, spent in times.items()}


def main(threads: int) -> None:
    """Print both tables."""
    torch.set_num_threads(threads)
    print(f"dense layer, {TOKENS} tokens a batch, {threads} threads: ms (times as fast as the loop)")
    for tokens in LENGTHS:
        spent = medians(layer_steps(tokens), 5 if tokens > 1024 else 9)
        loop = spent["reference"]
        row = "  ".join(f"{form} {spent[form]:7.1f} ({loop / spent[form]:5.1f}x)" for form in FORMS)
        print(f"T={tokens:5d}  {row}", flush=True)
    print("associative read of 8, 32 lanes, 128 tokens: ms (times as fast as torch.topk)")
    for label, positions in (("all positions", None), ("the last only", [127])):
        spent = medians(read_steps(32, 128, positions), 9)
        base = spent["torch.topk"]
        print(f"{label}  " + "  ".join(f"{name} {ms:.2f} ({base / ms:.1f}x)" for name, ms in spent.items()))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
