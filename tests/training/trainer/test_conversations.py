"""Tests of masks of conversations: exactly the text that the model writes by each family's
template.

The templates are written here in the format of each family; special tokens are added to the small
model's tokenizer, so that they are single ids as in the family's own.
"""

from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is in the models environment: make test-models")

from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from transformers import AutoTokenizer

from tests.training.trainer.pocket import POCKET
from tutti.tasks.training.trainer.rows import BadData, conversation_rows

CHATML = """{%- for m in messages -%}
<|im_start|>{{ m.role }}
{% if m.role == 'assistant' and m.reasoning and THINKS %}<think>
{{ m.reasoning }}
</think>

{% endif %}{{ m.content }}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}<|im_start|>assistant
{% endif -%}"""
LLAMA3 = """{%- for m in messages -%}
<|start_header_id|>{{ m.role }}<|end_header_id|>

{{ m.content }}<|eot_id|>
{%- endfor -%}
{%- if add_generation_prompt -%}<|start_header_id|>assistant<|end_header_id|>

{% endif -%}"""
MISTRAL = """<s>{%- for m in messages -%}
{%- if m.role == 'user' -%}[INST] {{ m.content }} [/INST]
{%- else -%}{{ ' ' }}{{ m.content }}</s>{%- endif -%}
{%- endfor -%}"""
HARMONY = """{%- for m in messages -%}
{%- if m.role == 'user' -%}<|start|>user<|message|>{{ m.content }}<|end|>
{%- else -%}<|start|>assistant<|channel|>final<|message|>{{ m.content }}
{%- if loop.last -%}<|return|>{%- else -%}<|end|>{%- endif -%}{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}<|start|>assistant{%- endif -%}"""
FAMILIES = {
    "chatml": (CHATML.replace("THINKS", "true"), "<|im_end|>"),
    "qwen3": (CHATML.replace("THINKS", "loop.last"), "<|im_end|>"),
    "hermes": (CHATML.replace("THINKS", "false"), "<|im_end|>"),
    "llama3": (LLAMA3, "<|eot_id|>"),
    "mistral": (MISTRAL, "</s>"),
    "harmony": (HARMONY, "<|return|>"),
}
SPECIAL = (
    "<|im_start|> <|im_end|> <|eot_id|> <|start_header_id|> <|end_header_id|> <s> </s> [INST] "
    "[/INST] <|start|> <|end|> <|message|> <|channel|> <|return|>"
)


def tokenizer_of(family: str) -> Any:
    template, end = FAMILIES[family]
    tokenizer = AutoTokenizer.from_pretrained(POCKET)
    tokenizer.add_special_tokens({"additional_special_tokens": SPECIAL.split()})
    tokenizer.chat_template, tokenizer.eos_token = template, end
    return tokenizer


TOKENIZERS = {family: tokenizer_of(family) for family in FAMILIES}
texts = st.text("abcdefg ,.\n", min_size=1, max_size=20).map(str.strip).filter(bool)
dialogues = st.lists(st.tuples(texts, texts, st.none() | texts), min_size=1, max_size=4)


@pytest.mark.parametrize("family", FAMILIES)
@given(said=dialogues)
@examples(max_examples=25)
def test_the_mask_is_what_the_model_writes(
    family: str, said: list[tuple[str, str, str | None]]
) -> None:
    """Every reply with its end token is trained once; the text before it equals an engine's
    prompt."""
    tokenizer = TOKENIZERS[family]
    messages: list[dict[str, Any]] = []
    for asked, answer, reasoning in said:
        messages.append({"role": "user", "content": asked})
        messages.append({"role": "assistant", "content": answer, "reasoning": reasoning})
    rows = conversation_rows(tokenizer, messages, None)
    written: dict[int, str] = {}
    for row in rows:
        for turn in sorted(set(row.turns) - {-1}):
            at = [n for n, each in enumerate(row.turns) if each == turn]
            assert at == list(range(at[0], at[-1] + 1)), "one span a turn"
            assert turn not in written, "trained once"
            written[turn] = tokenizer.decode([row.ids[n] for n in at])
            prompt = tokenizer.apply_chat_template(
                messages[: 2 * turn + 1], tokenize=False, add_generation_prompt=True
            )
            assert row.ids[: at[0]] == tokenizer(prompt, add_special_tokens=False)["input_ids"]
    assert len(written) == len(said)
    for turn, (_, answer, reasoning) in enumerate(said):
        assert answer in written[turn] and written[turn].endswith(FAMILIES[family][1])
        thinks = reasoning is not None and family in ("chatml", "qwen3")
        assert ("<think>" in written[turn]) == thinks
    rewrites = family == "harmony" or (
        family == "qwen3" and any(reasoning for _, _, reasoning in said[:-1])
    )
    assert (len(rows) > 1) == (rewrites and len(said) > 1)


def test_a_turn_weighs_what_its_message_says() -> None:
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b", "weight": 0.25},
        {"role": "user", "content": "c"},
        {"role": "assistant", "content": "d"},
    ]
    (row,) = conversation_rows(TOKENIZERS["chatml"], messages, None)
    weights = {turn: row.values[n] for n, turn in enumerate(row.turns) if turn >= 0}
    assert weights == {0: 0.25, 1: 1.0}


def test_a_template_that_writes_no_turn_after_its_prompt_is_named() -> None:
    tokenizer = tokenizer_of("llama3")
    tokenizer.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}" + (
        "{% if add_generation_prompt %}ANSWER:{% endif %}"
    )
    said = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    with pytest.raises(BadData, match=r"messages\.1: the template"):
        conversation_rows(tokenizer, said, None)
