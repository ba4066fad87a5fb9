"""Keys, values and queries of a head of a Hugging Face causal model, as its attention has them: for `npz_stream`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from models.stream import Ints
from tasks.workload import LONGEST_STREAM

IMPLEMENTATION = "slotsweep_capture"
"""Under this name the attention that also takes down what it is given is known to `transformers`."""

DEFAULT_TOKENS = 2048

CHARACTERS_PER_TOKEN = 32
"""Of a text so many are read for each token that is wanted: no tokenizer needs more of a language."""


MOST_WEIGHTS = 1 << 28
"""Attention weights of a layer up to which a model attends by plain products, which need them all at once: 1 GiB."""

ROUNDING = 1e-3
"""Outputs that differ by more, over their usual length, are not of the same attention; both are of 32 bits or more."""


class CaptureError(RuntimeError):
    """A model or a text of which nothing can be captured; the message says what to do."""


@dataclass
class _Taken:
    """What the attention of one layer was given, how it scales, what it gave, and what the model made of that.

    queries [H, T, d], keys and values [H', T, d], outputs [T, H, dv]; `followed` is what went on from there.
    """

    layer: int
    layers: set[int] = field(default_factory=set)
    times: int = 0
    queries: Any = None
    keys: Any = None
    values: Any = None
    outputs: Any = None
    followed: Any = None
    scale: float = 0.0
    window: int | None = None
    softcap: float | None = None


def capture_file(
    model: str, text: Path, out: Path, *, layer: int, head: int, tokens: int | None, queries: int
) -> dict[str, np.ndarray]:
    """Capture from the model in a folder, or of a name on the Hub, reading the front of a text; returns what it wrote.

    tokens: so many are read; None: `DEFAULT_TOKENS`, or all of a shorter text. Raises CaptureError.
    """
    most = DEFAULT_TOKENS if tokens is None else tokens
    if most > LONGEST_STREAM:
        raise CaptureError(f"{most:,} tokens are asked for, and at most {LONGEST_STREAM:,} are captured")
    transformers = _transformers()
    try:
        with text.open(encoding="utf-8") as file:
            content = file.read(most * CHARACTERS_PER_TOKEN)
    except (OSError, UnicodeDecodeError) as error:
        raise CaptureError(f"cannot read {text} as UTF-8: {error}") from error
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(model)
        loaded = transformers.AutoModelForCausalLM.from_pretrained(model)
    except (OSError, ValueError, ImportError) as error:
        raise CaptureError(f"cannot load {model}: {str(error).splitlines()[0]}") from error
    ids = np.array(tokenizer(content, add_special_tokens=True)["input_ids"], dtype=np.int64)
    if tokens is not None and len(ids) < tokens:
        raise CaptureError(f"{tokens:,} tokens are asked for, and {text} has {len(ids):,}")
    arrays = capture(loaded, ids[:most], layer=layer, head=head, queries=queries)
    about = {"model": model, "text": text.name, "layer": layer, "head": head}
    try:
        np.savez(out, allow_pickle=False, **arrays, about=np.array(json.dumps(about)))
    except OSError as error:
        raise CaptureError(f"cannot write {out}: {error.strerror}") from error
    return arrays


def capture(model: Any, ids: Ints, *, layer: int, head: int, queries: int) -> dict[str, np.ndarray]:
    """Arrays of `npz_stream` from one pass of `model`, a causal model of `transformers`, over `ids` [N].

    keys [N, d] and values [N, dv] are those of the head that query head `head` reads (with grouped queries several read
    one), after rotary embedding where the model has it; queries [Q, d] are those of the last `queries` tokens, each
    asked once its own token has come, as causal attention does. Layers and heads count from 0. Raises CaptureError.
    """
    import torch

    if not 2 <= len(ids) <= LONGEST_STREAM:
        raise CaptureError(f"the text has {len(ids):,} tokens, and 2 to {LONGEST_STREAM:,} are captured")
    longest = getattr(model.config, "max_position_embeddings", None)
    if longest is not None and len(ids) > longest:
        raise CaptureError(f"the model has {longest:,} positions, and {len(ids):,} tokens are asked for: give --tokens")
    if not 1 <= queries <= len(ids):
        raise CaptureError(f"{queries:,} queries are asked for, and there are {len(ids):,} tokens")
    known = model.get_input_embeddings().num_embeddings
    if ids.max() >= known:
        raise CaptureError(f"the text has the token {ids.max():,}, and the model knows {known:,}: is it its tokenizer?")
    model.eval()
    few = {"logits_to_keep": 1} if "logits_to_keep" in signature(model.forward).parameters else {}
    with _taking(model, layer, len(ids)) as taken, torch.no_grad():
        model(torch.from_numpy(ids)[None].to(model.device), use_cache=False, **few)
    _check(taken, head, len(ids))
    readers = len(taken.queries) // len(taken.keys)
    keys, values = _array(taken.keys[head // readers]), _array(taken.values[head // readers])
    asked = _array(taken.queries[head])
    positions = np.arange(len(ids) - queries, len(ids))
    _check_outputs(taken, head, keys, values, asked, positions)
    return {
        "keys": keys,
        "values": values,
        "queries": asked[positions],
        "positions": positions + 1,
        "tokens": ids,
        "scale": np.array(taken.scale),
    }


def _array(tensor: Any) -> np.ndarray:
    found: np.ndarray = tensor.float().cpu().numpy()
    return found


def _check(taken: _Taken, head: int, tokens: int) -> None:
    """Raises CaptureError where the layer was not seen, or does what products and a softmax alone do not."""
    if not taken.layers:
        raise CaptureError(
            "this model's attention does not go through `transformers.AttentionInterface`: none was seen"
        )
    if taken.queries is None:
        raise CaptureError(f"there is no layer {taken.layer}: this model's attention is in {_ranges(taken.layers)}")
    if not 0 <= head < len(taken.queries):
        raise CaptureError(f"there is no head {head}: layer {taken.layer} has heads 0 to {len(taken.queries) - 1}")
    if taken.window is not None and taken.window < tokens:
        raise CaptureError(
            f"layer {taken.layer} attends to the last {taken.window:,} tokens alone: give --tokens {taken.window}, or "
            "another layer"
        )
    if taken.softcap is not None:
        raise CaptureError(f"layer {taken.layer} caps its logits at {taken.softcap}, which `npz_stream` does not")


def _check_outputs(
    taken: _Taken, head: int, keys: np.ndarray, values: np.ndarray, queries: np.ndarray, positions: Ints
) -> None:
    """Raises CaptureError unless the layer gave what keys, values and queries give, and nothing else went on from it.

    Compared are the queries at `positions`, which are kept, and that of the first token, which sees itself alone.
    """
    outputs = _array(taken.outputs[:, head]).astype(np.float64)
    differ = []
    for position in (0, *positions.tolist()):
        logits = keys[: position + 1].astype(np.float64) @ queries[position] * taken.scale
        weights = np.exp(logits - logits.max())
        differ.append(np.linalg.norm(weights @ values[: position + 1] / weights.sum() - outputs[position]))
    usual = float(np.linalg.norm(outputs[[0, *positions]], axis=1).mean())
    found = max(differ) / usual if usual > 0.0 else max(differ)
    if not found <= ROUNDING:
        raise CaptureError(
            f"layer {taken.layer} does not give what its keys, values and queries give: outputs differ by {found:.2g} "
            "of their length. It attends by more than products and a softmax over the tokens so far (to a part of "
            "them, to later ones, to sinks, by biases), which `npz_stream` does not"
        )
    if taken.times > 1 or not _went_on(taken):
        raise CaptureError(
            f"layer {taken.layer} does more with what its heads attend to than pass it on (gates, or differences of "
            "heads), which `npz_stream` does not"
        )


def _went_on(taken: _Taken) -> bool:
    """Whether what the heads gave is what the next part of the model was given."""
    import torch

    if taken.followed is None or taken.followed.numel() != taken.outputs.numel():
        return False
    return torch.equal(taken.followed.reshape(taken.outputs.shape), taken.outputs.to(taken.followed.dtype))


def _ranges(layers: set[int]) -> str:
    ordered = sorted(layers)
    whole = ordered == list(range(ordered[0], ordered[-1] + 1))
    return f"layers {ordered[0]} to {ordered[-1]}" if whole else f"layers {', '.join(map(str, ordered))}"


@contextmanager
def _taking(model: Any, layer: int, tokens: int) -> Iterator[_Taken]:
    """Let `model` attend in its own way, and note what the attention of `layer` is given, and gives.

    Its own way is that of plain products where memory holds the weights, else the one that it was loaded with.
    """
    transformers = _transformers()
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS

    taken = _Taken(layer)
    before = model.config._attn_implementation
    heads = getattr(model.config.get_text_config(), "num_attention_heads", 1)
    way = "eager" if heads * tokens**2 <= MOST_WEIGHTS else before

    def attend(module: Any, query: Any, key: Any, value: Any, attention_mask: Any, **options: Any) -> Any:
        taken.layers.add(module.layer_idx)
        own = _own_attention(module, way)
        if module.layer_idx != layer:
            return own(module, query, key, value, attention_mask, **options)
        scale = options.get("scaling")
        taken.times += 1
        taken.queries, taken.keys, taken.values = query[0], key[0], value[0]
        taken.scale = float(query.shape[-1] ** -0.5 if scale is None else scale)
        taken.window, taken.softcap = options.get("sliding_window"), options.get("softcap")
        if attention_mask is not None and attention_mask.is_floating_point():
            attention_mask = attention_mask.float()
        outputs, weights = own(module, query.float(), key.float(), value.float(), attention_mask, **options)
        taken.outputs = outputs[0]
        return outputs.to(query.dtype), weights

    transformers.AttentionInterface.register(IMPLEMENTATION, attend)
    transformers.AttentionMaskInterface.register(IMPLEMENTATION, ALL_MASK_ATTENTION_FUNCTIONS[way])
    hooks = _followers(model, taken)
    try:
        model.set_attn_implementation(IMPLEMENTATION)
        yield taken
    except (ValueError, NotImplementedError) as error:
        raise CaptureError(f"this model takes no attention of others: {str(error).splitlines()[0]}") from error
    finally:
        for hook in hooks:
            hook.remove()
        model.set_attn_implementation(before)


def _own_attention(module: Any, way: str) -> Any:
    """The function by which `module` would attend. Raises CaptureError."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    if way in ALL_ATTENTION_FUNCTIONS:
        return ALL_ATTENTION_FUNCTIONS[way]
    for kind in type(module).__mro__:
        if (found := getattr(sys.modules[kind.__module__], "eager_attention_forward", None)) is not None:
            return found
    raise CaptureError(f"this model has no `eager_attention_forward` beside its {type(module).__name__}")


def _followers(model: Any, taken: _Taken) -> list[Any]:
    """Hooks that note what is first given to a part of the layer, or leaves it, after it has attended."""

    def note(tensor: Any) -> None:
        if taken.outputs is not None and taken.followed is None:
            taken.followed = tensor

    def given(_module: Any, inputs: Any) -> None:
        note(inputs[0] if inputs else None)

    def left(_module: Any, _inputs: Any, outputs: Any) -> None:
        note(outputs[0] if isinstance(outputs, tuple) else outputs)

    hooks = []
    for module in model.modules():
        if getattr(module, "layer_idx", None) == taken.layer:
            hooks.append(module.register_forward_hook(left))
            hooks += [part.register_forward_pre_hook(given) for part in module.modules() if part is not module]
    return hooks


def _transformers() -> Any:
    try:
        import transformers
    except ImportError as error:
        raise CaptureError("this needs the library `transformers`: pip install 'slotsweep[capture]'") from error
    return transformers
