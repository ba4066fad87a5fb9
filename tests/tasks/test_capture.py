"""What is captured of a model is what its attention computes with: held against the model's own attention."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from models.mechanism import MECHANISMS
from orchestrator.cli.app import app
from tasks.capture import CaptureError, capture
from tasks.evaluate import evaluate
from tasks.workload import WORKLOADS

transformers = pytest.importorskip("transformers")

TOKENS, HEADS, GROUPS, VOCABULARY = 48, 4, 2, 60


def tiny(form: str, **options: Any) -> Any:
    """A model of two layers with random weights."""
    import torch

    torch.manual_seed(0)
    if form == "gpt2":
        config = transformers.GPT2Config(
            vocab_size=VOCABULARY, n_positions=64, n_embd=32, n_layer=2, n_head=HEADS, **options
        )
    else:
        config = getattr(transformers, f"{form}Config")(
            vocab_size=VOCABULARY,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=HEADS,
            num_key_value_heads=GROUPS,
            max_position_embeddings=64,
            **options,
        )
    model = transformers.AutoModelForCausalLM.from_config(config)
    for name, parameter in model.named_parameters():
        parameter.data.mul_(8.0)  # weights as drawn make attention nearly uniform
        if name.endswith("sinks"):
            parameter.data.fill_(400.0)  # as large as logits here
    return model.eval()


IDS = np.random.default_rng(1).integers(VOCABULARY, size=TOKENS)


@pytest.mark.parametrize("form", ["gpt2", "Llama"])
@pytest.mark.parametrize(("layer", "head"), [(0, 0), (1, 1), (1, 3)])
def test_captured_products_give_the_attention_of_the_model(form: str, layer: int, head: int) -> None:
    import torch

    model = tiny(form)
    found = capture(model, IDS, layer=layer, head=head, queries=10)
    assert model.config._attn_implementation != "slotsweep_capture"
    model.set_attn_implementation("eager")
    with torch.no_grad():
        weights = model(torch.from_numpy(IDS)[None], output_attentions=True).attentions[layer][0, head].numpy()
    assert found["keys"].shape == (TOKENS, 8)
    assert found["positions"].tolist() == list(range(TOKENS - 9, TOKENS + 1))
    logits = found["queries"] @ found["keys"].T * found["scale"]
    for position, row in zip(found["positions"], logits, strict=True):
        softmax = np.exp(row[:position] - row[:position].max())
        np.testing.assert_allclose(softmax / softmax.sum(), weights[position - 1, :position], atol=2e-5)
    np.testing.assert_array_equal(found["tokens"], IDS)


def test_heads_of_a_group_read_the_same_keys_and_values() -> None:
    model = tiny("Llama")
    first, second, third = (capture(model, IDS, layer=0, head=head, queries=1) for head in (0, 1, 2))
    np.testing.assert_array_equal(first["keys"], second["keys"])
    np.testing.assert_array_equal(first["values"], second["values"])
    assert not np.allclose(first["keys"], third["keys"])
    assert not np.allclose(first["queries"], second["queries"])


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        ({"layer": 2}, "there is no layer 2: this model's attention is in layers 0 to 1"),
        ({"head": 4}, "there is no head 4: layer 0 has heads 0 to 3"),
        ({"queries": TOKENS + 1}, "49 queries are asked for, and there are 48 tokens"),
    ],
)
def test_what_is_not_there_is_told(ask: dict[str, int], message: str) -> None:
    with pytest.raises(CaptureError) as caught:
        capture(tiny("gpt2"), IDS, **{"layer": 0, "head": 0, "queries": 5, **ask})
    assert message in str(caught.value)


def test_texts_that_do_not_fit_and_windows_are_told() -> None:
    with pytest.raises(CaptureError, match="has 64 positions, and 65 tokens are asked for"):
        capture(tiny("gpt2"), np.zeros(65, dtype=np.int64), layer=0, head=0, queries=1)
    with pytest.raises(CaptureError, match="has 1 tokens"):
        capture(tiny("gpt2"), IDS[:1], layer=0, head=0, queries=1)
    with pytest.raises(CaptureError, match="has the token 60, and the model knows 60"):
        capture(tiny("gpt2"), np.array([1, VOCABULARY]), layer=0, head=0, queries=1)
    windowed = tiny("Mistral", sliding_window=16)
    with pytest.raises(CaptureError, match="attends to the last 16 tokens alone"):
        capture(windowed, IDS, layer=0, head=0, queries=1)
    assert len(capture(windowed, IDS[:16], layer=0, head=0, queries=1)["keys"]) == 16


EXPERTS = {"num_local_experts": 2, "num_experts_per_tok": 1}


@pytest.mark.parametrize(
    ("form", "options", "message"),
    [
        ("GptOss", {"head_dim": 8, "sliding_window": 128, **EXPERTS}, "does not give what its keys, values"),
        ("Phimoe", {"sliding_window": 8, **EXPERTS}, "does not give what its keys, values"),
        ("Doge", {"sliding_window": 8}, "does not give what its keys, values"),
        ("Bert", {}, "does not give what its keys, values"),
        ("DiffLlama", {}, "does more with what its heads attend to"),
    ],
)
def test_attention_of_other_kinds_is_refused(form: str, options: dict[str, Any], message: str) -> None:
    """Sinks, a window that only the mask tells of, a mask by values, a look ahead, differences of heads."""
    with pytest.raises(CaptureError, match=message):
        capture(tiny(form, **options), IDS, layer=1, head=3, queries=10)


def test_rounded_weights_and_long_texts_are_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    exact = capture(tiny("Llama"), IDS, layer=1, head=3, queries=10)
    monkeypatch.setattr("tasks.capture.MOST_WEIGHTS", 0)  # as if a layer's weights did not fit
    np.testing.assert_allclose(capture(tiny("Llama"), IDS, layer=1, head=3, queries=10)["keys"], exact["keys"], 1e-3)
    rounded = capture(tiny("Llama").to(torch.bfloat16), IDS, layer=1, head=3, queries=10)
    assert 0.0 < np.abs(rounded["keys"] - exact["keys"]).mean() < 0.2 * np.abs(exact["keys"]).mean()
    with pytest.raises(CaptureError, match="does not give"):
        capture(tiny("Phimoe", sliding_window=8, **EXPERTS), IDS, layer=1, head=3, queries=10)


def test_logits_of_the_last_token_alone_are_computed() -> None:
    model = tiny("Llama")
    rows: list[int] = []
    model.lm_head.register_forward_hook(lambda _module, _inputs, logits: rows.append(logits.shape[1]))
    capture(model, IDS, layer=0, head=0, queries=1)
    assert rows == [1]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model and a tokenizer of words, as they are saved."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = {f"w{number}": number for number in range(VOCABULARY - 1)} | {"[UNK]": VOCABULARY - 1}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]").save_pretrained(tmp_path / "m")
    tiny("Llama").save_pretrained(tmp_path / "m")
    return tmp_path / "m"


def test_a_model_and_a_text_become_a_sweep(folder: Path, tmp_path: Path) -> None:
    text, out = tmp_path / "text.txt", tmp_path / "layer.npz"
    text.write_text(" ".join(f"w{number}" for number in IDS), encoding="utf-8")
    asked = ["capture", str(folder), "--text", str(text), "--layer", "1", "--head", "2", "--out", str(out)]
    result = CliRunner().invoke(app, [*asked, "--tokens", "40", "--queries", "12", "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout.splitlines()[-1])["shapes"]["keys"] == [40, 8]
    workload: Any = WORKLOADS.implementation("npz_stream")(WORKLOADS.config_class("npz_stream")(path=str(out)))
    memories: list[Any] = [
        MECHANISMS.config_class(name)(**fields)
        for name, fields in (("full_attention", {}), ("knorm", {"budget": 8}), ("item_lru", {"budget": 8}))
    ]
    full, knorm, lru = (outcome.metrics for outcome in evaluate(workload, memories, 0, 1, "float32"))
    assert full is not None
    assert knorm is not None
    assert lru is not None
    assert full["attention_error"] < 1e-9 < min(knorm["attention_error"], lru["attention_error"])
    assert full["top1_agreement"] == 1.0


def test_mistakes_of_the_command_are_told(folder: Path, tmp_path: Path) -> None:
    def told(*changes: str) -> str:
        asked = ["capture", str(folder), "--text", str(tmp_path / "none.txt"), "--layer", "0", "--head", "0", *changes]
        result = CliRunner().invoke(app, asked)
        assert result.exit_code != 0
        return str(result.exception)

    assert "is no .npz" in told("--out", "x.txt")
    assert "cannot read" in told("--out", str(tmp_path / "x.npz"))
    (tmp_path / "none.txt").write_text("w1 w2 w3")
    assert "90 tokens are asked for, and" in told("--out", str(tmp_path / "x.npz"), "--tokens", "90")
    assert "at most 65,536 are captured" in told("--out", str(tmp_path / "x.npz"), "--tokens", "90000")
    assert "64 queries are asked for, and there are 3 tokens" in told("--out", str(tmp_path / "x.npz"))
