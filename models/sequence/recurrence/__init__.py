"""Recurrences of sequence models, differentiable and exact, each in three forms behind one function.

`reference` is one plain loop over tokens, for reading and tests; `chunked` is made of torch's matrix products and runs
on every device; `compiled` is a kernel for CPUs. Without `form` the fastest for the device is chosen. A *lane* is one
independent recurrence: seeds, batch and heads, flattened. A `..._step` reads one token, for streaming.
"""

from models.sequence.recurrence.associative_read import Entries, associative_read, associative_read_step
from models.sequence.recurrence.decayed_sum import decayed_sum, decayed_sum_step
from models.sequence.recurrence.forms import FORMS, Form
from models.sequence.recurrence.gated_delta import gated_delta, gated_delta_step
from models.sequence.recurrence.linear_attention import linear_attention, linear_attention_step
from models.sequence.recurrence.triple import triple_recurrence, triple_recurrence_at, triple_recurrence_step

__all__ = [
    "FORMS",
    "Entries",
    "Form",
    "associative_read",
    "associative_read_step",
    "decayed_sum",
    "decayed_sum_step",
    "gated_delta",
    "gated_delta_step",
    "linear_attention",
    "linear_attention_step",
    "triple_recurrence",
    "triple_recurrence_at",
    "triple_recurrence_step",
]
