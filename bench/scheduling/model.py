"""Make a random Qwen3 and its tokenizer, in the models environment.

In: ``--out`` and the sizes. Out: weights (bf16), tokenizer, chat template; the same for the same
sizes. Run: ``python -m bench.scheduling.model --help``.
"""

import argparse
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from bench.scheduling.work import ROLES, WORDS

START, END, UNKNOWN = "<|im_start|>", "<|im_end|>", "<|unknown|>"
TEMPLATE = (
    "{% for message in messages %}" + START + "{{ message['role'] }} {{ message['content'] }}" + END
) + ("{% endfor %}{% if add_generation_prompt %}" + START + "assistant {% endif %}")
SEED = 0


def make_tokenizer() -> Any:
    """One token a word, so that an answer, sent back, is the tokens the engine wrote."""
    known = [UNKNOWN, START, END, *ROLES, "none", *WORDS]
    tokenizer = Tokenizer(
        models.WordLevel({word: at for at, word in enumerate(known)}, unk_token=UNKNOWN)
    )
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens([UNKNOWN, START, END])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token=UNKNOWN,
        eos_token=END,
        pad_token=END,
        chat_template=TEMPLATE,
        clean_up_tokenization_spaces=False,
    )


def make_model(sizes: argparse.Namespace, vocabulary: int, end: int) -> Any:
    """A decoder with random weights, embeddings tied, that never writes a special token."""
    torch.manual_seed(SEED)
    config = Qwen3Config(
        vocab_size=vocabulary,
        hidden_size=sizes.hidden,
        intermediate_size=sizes.intermediate,
        num_hidden_layers=sizes.layers,
        num_attention_heads=sizes.heads,
        num_key_value_heads=sizes.kv_heads,
        head_dim=sizes.head_dim,
        max_position_embeddings=sizes.context,
        tie_word_embeddings=True,
        eos_token_id=end,
        bos_token_id=None,
        pad_token_id=end,
    )
    model = Qwen3ForCausalLM(config).to(torch.bfloat16)
    with torch.no_grad():
        model.get_input_embeddings().weight[: end + 1] = 0  # their logit is 0, another's is above
    return model


def main() -> None:
    """Parse, make, save."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    for name in ("hidden", "intermediate", "layers", "heads", "kv_heads", "head_dim", "context"):
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, required=True)
    given = parser.parse_args()
    tokenizer = make_tokenizer()
    model = make_model(given, len(tokenizer), tokenizer.convert_tokens_to_ids(END))
    model.save_pretrained(given.out)
    tokenizer.save_pretrained(given.out)
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters")


if __name__ == "__main__":
    main()
