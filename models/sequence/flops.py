"""Forward arithmetic of sequence models, counted as arXiv 2606.05175 counts it."""

from __future__ import annotations

from models.mechanisms.transformer_plus_triple import TransformerPlusTripleConfig
from models.mechanisms.triple_memory import TripleMemoryConfig
from models.mechanisms.triple_slot import TripleSlotConfig
from models.mechanisms.triple_slot_hybrid import TripleSlotHybridConfig
from models.sequence.attention_config import AttentionConfig
from models.sequence.config import SequenceConfig
from models.sequence.retrieval_config import RetrievalConfig
from models.sequence.triple_config import TAPS, HybridConfig, TripleConfig


def forward_flops(config: SequenceConfig, vocabulary: int, length: int) -> int:
    """Floating-point operations of one forward pass over `length` tokens, logits at all of them; 2 a multiply-add.

    Embeddings, normalisation, softmax and choosing the top k are left out, as in the paper's estimate (released code).
    It counts the algorithm that the paper tells, token by token and with a second projection to the vocabulary where
    two normalised vectors are added to logits, not what a kernel of ours does. Slots are counted in its way: 6
    operations a number of a pair memory (4 to update it, 2 to read it), 12 where a slot has two factors.
    Raises TypeError for models that the paper counts none of.
    """
    if isinstance(config, RetrievalConfig) or getattr(config, "window", None) is not None:
        raise TypeError(f"the operations of `{config.name}` are not counted: the paper has no such model")
    n, d, layers = length, config.width, config.layers
    logits = 2 * n * d * vocabulary
    match config:
        case TransformerPlusTripleConfig():
            return layers * attention_layer(config, n) + triple_layer(config, n) + 2 * logits
        case AttentionConfig():
            return layers * attention_layer(config, n) + logits
        case TripleMemoryConfig():
            active = layers if config.memory_layers == "all" else 1
            second = logits if config.fusion == "logits" else 0
            return (
                layers * triple_layer(config, n) + convolution(config, n) + active * memory(config, n) + logits + second
            )
        case TripleConfig():
            return layers * triple_layer(config, n) + convolution(config, n) + logits
    raise TypeError(f"the operations of `{config.name}` are not counted: only attention and triple-latent layers are")


def attention_layer(config: AttentionConfig, n: int) -> int:
    """Projections, scores and weighted values of all pairs of tokens (future ones too), feed-forward part."""
    d = config.width
    hidden = {"gelu": 8 * d, "swiglu": 12 * d, "swiglu_matched": 3 * (8 * d // 3)}[config.feed_forward]
    return 8 * n * d**2 + 4 * n**2 * d + 2 * n * d * hidden


def triple_layer(config: TripleConfig, n: int) -> int:
    """Four projections, gates, recurrences and reads, output projection, feed-forward part."""
    d, heads, size = config.width, config.heads, config.heads * config.state
    into = 8 * n * d * size + 4 * n * d * heads + 16 * n * d**2
    if isinstance(config, TripleSlotConfig | TripleSlotHybridConfig):
        slots = heads * config.slots
        return into + 2 * n * d * slots + n * (12 * slots * config.state + slots) + 2 * n * slots * d
    return into + n * (6 * size * config.state + size) + 2 * n * size * d


def convolution(config: TripleConfig, n: int) -> int:
    """The local convolution of hybrids."""
    return 2 * TAPS * n * config.width**2 if isinstance(config, HybridConfig) else 0


def memory(config: TripleMemoryConfig, n: int) -> int:
    """Query, key and value of each token, cosines with all t tokens before it, means of values, gates."""
    d, size = config.width, config.memory_width
    kept = sum(min(config.top_k, t) for t in range(n))
    work = 4 * n * d * size + 2 * n * d**2 + size * n * (n - 1) + 2 * kept * d
    work += 2 * n * d if config.read_gate else 0
    work += 4 * (n - 1) * d if config.write_gate else 0
    return work + (4 * n * d**2 if config.fusion == "concat" else 0)
