"""Writes a base's weights with noise, or a random adapter of it; runs in the models environment.

``python changed_weights.py --base FOLDER --out FOLDER --seed N [--adapter]``
"""

import argparse
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer

SHARE = 0.5
"""Noise of each matrix, of its standard deviation: enough to change most answers."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--adapter", action="store_true")
    given = parser.parse_args()
    torch.manual_seed(given.seed)
    model = AutoModelForCausalLM.from_pretrained(given.base)
    if given.adapter:
        config = LoraConfig(r=8, lora_alpha=16, target_modules=["q_proj", "v_proj", "down_proj"])
        model = get_peft_model(model, config)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim == 2 and (not given.adapter or "lora_B" in name):
                spread = weight.std() * SHARE if not given.adapter else 0.3
                weight.add_(torch.randn_like(weight) * spread)
    model.save_pretrained(given.out)
    if not given.adapter:
        AutoTokenizer.from_pretrained(given.base).save_pretrained(given.out)


if __name__ == "__main__":
    main()
