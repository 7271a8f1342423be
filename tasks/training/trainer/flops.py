"""Model FLOPs of a step and the device's peak FLOP/s, for MFU. Needs no torch."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

PEAK_TFLOPS = "TUTTI_PEAK_TFLOPS"
"""Environment variable: the peak of the device, in 10^12 FLOP/s, in place of the table's."""
PEAKS: tuple[tuple[str, float], ...] = (
    (r"\bA100\b", 312.0),
    (r"\bH100 PCIe\b", 756.5),
    (r"\bH100 NVL\b", 835.5),
    (r"\bH100 80GB HBM3\b|\bH100 SXM", 989.5),
    (r"\bH200 NVL\b", 835.5),
    (r"\bH200\b", 989.5),
    (r"\bL40S\b", 362.0),
    (r"\bRTX 4090$", 165.2),
    (r"\bB200\b", 2250.0),
)
"""Name of a device (a pattern, the first that fits) to its dense bf16 peak with float32
accumulation, in 10^12 FLOP/s. Source: NVIDIA's data sheets."""


@dataclass(frozen=True)
class ModelSize:
    """The numbers of weights that the cost of a pass depends on."""

    body: int  # Weights that every token passes: all but embeddings and head
    head: int  # Weights of the head, which only the trained tokens pass
    trained_body: int  # Those of `body` that are trained: of an adapter its own
    trained_head: int
    attention: int  # L H Q: layers x heads x size of a head


def step_flops(size: ModelSize, lengths: Sequence[int], trained: int) -> float:
    """Model FLOPs of a training step on sequences of `lengths` ids, of which `trained` are trained.

    Each token costs 6 N, and 12 L H Q n in a sequence of n. Source: PaLM, arXiv 2204.02311,
    appendix B. Of the 6, 2 are the forward pass, 2 the gradient of the activations, and 2 that of
    the weights, if they are trained. Not counted: lookups of embeddings, recomputation by gradient
    checkpointing, and passes of a reference model.
    """
    weights = (4 * size.body + 2 * size.trained_body) * sum(lengths)
    weights += (4 * size.head + 2 * size.trained_head) * trained
    return float(weights + 12 * size.attention * sum(length**2 for length in lengths))


def peak_flops(device: str | None, environment: Mapping[str, str]) -> float | None:
    """Return the peak FLOP/s of a device by its name; None for a CPU or an unknown device. Raises
    ValueError if PEAK_TFLOPS is not a positive number."""
    if given := environment.get(PEAK_TFLOPS):
        try:
            tflops = float(given)
        except ValueError:
            tflops = 0.0
        if not 0 < tflops < float("inf"):
            raise ValueError(f"{PEAK_TFLOPS}: {given!r}: give the device's peak in 10^12 FLOP/s")
        return tflops * 1e12
    if device is None or " MIG " in device:  # a part of a GPU has a part of its peak
        return None
    return next((peak * 1e12 for name, peak in PEAKS if re.search(name, device)), None)


def size_of(model: Any) -> ModelSize:
    """Return the sizes of a transformers model, with or without an adapter."""
    causal = model.get_base_model() if hasattr(model, "get_base_model") else model
    config = causal.config.get_text_config()
    heads = config.num_attention_heads
    head_size = getattr(config, "head_dim", None) or config.hidden_size // heads
    outer = {id(causal.get_input_embeddings().weight), id(causal.get_output_embeddings().weight)}
    inner = [each for each in model.parameters() if id(each) not in outer]
    head = causal.get_output_embeddings().weight
    return ModelSize(
        body=sum(each.numel() for each in inner),
        head=head.numel(),
        trained_body=sum(each.numel() for each in inner if each.requires_grad),
        trained_head=head.numel() if head.requires_grad else 0,
        attention=config.num_hidden_layers * heads * head_size,
    )
