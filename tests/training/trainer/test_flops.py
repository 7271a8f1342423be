"""Tests that model FLOPs follow the formula, and that no device's peak is guessed."""

import pytest

from tutti.tasks.training.trainer.flops import ModelSize, peak_flops, step_flops


def test_the_published_formula() -> None:
    """PaLM's formula is 6 N + 12 L H Q T per token; here all weights are trained at every token."""
    layers, heads, size, length = 3, 4, 8, 100
    model = ModelSize(1000, 200, 1000, 200, attention=layers * heads * size)
    whole = (6 * 1200 + 12 * layers * heads * size * length) * length
    assert step_flops(model, [length], trained=length) == whole
    assert step_flops(model, [length] * 3, trained=3 * length) == 3 * whole


def test_what_is_not_computed_is_not_counted() -> None:
    """Not computed are the head for prompts, the gradient of frozen weights, and attention across
    sequences."""
    full, adapter = ModelSize(1000, 200, 1000, 200, 0), ModelSize(1000, 200, 10, 0, 0)
    assert step_flops(full, [10], 0) == 6 * 1000 * 10
    assert step_flops(adapter, [10], 10) == (4 * 1200 + 2 * 10) * 10
    attention = ModelSize(0, 0, 0, 0, 1)
    assert step_flops(attention, [5, 5], 0) == step_flops(attention, [10], 0) / 2


@pytest.mark.parametrize(
    ("device", "tflops"),
    [
        ("NVIDIA H100 80GB HBM3", 989.5),
        ("NVIDIA H100 PCIe", 756.5),
        ("NVIDIA H200", 989.5),
        ("NVIDIA A100-SXM4-80GB", 312.0),
        ("NVIDIA A100 80GB PCIe", 312.0),
        ("NVIDIA L40S", 362.0),
        ("NVIDIA GeForce RTX 4090", 165.2),
        ("NVIDIA B200", 2250.0),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", None),
        ("NVIDIA GH200 480GB", None),
        ("NVIDIA GB200", None),
        ("NVIDIA L40", None),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", None),
        (None, None),
    ],
)
def test_peaks_are_known_by_the_devices_whole_name(
    device: str | None, tflops: float | None
) -> None:
    assert peak_flops(device, {}) == (None if tflops is None else tflops * 1e12)
    assert peak_flops(device, {"TUTTI_PEAK_TFLOPS": "7"}) == 7e12


@pytest.mark.parametrize("given", ["fast", "0", "-1", "inf", "nan"])
def test_a_peak_that_is_no_number_is_refused(given: str) -> None:
    with pytest.raises(ValueError, match="TUTTI_PEAK_TFLOPS"):
        peak_flops(None, {"TUTTI_PEAK_TFLOPS": given})
