"""The pocket model's tokenizer: byte-level BPE in which an identifier always has the same tokens.

The pocket model must learn to copy. Two choices make this easy. Spaces and punctuation are
never merged with letters, so ``iterable`` is the same tokens after a space, a quote or a brace;
and the JSON around a tool call is one token, so a call is a name and little else.
In: texts. Out: a `PreTrainedTokenizerFast` with a Hermes chat template.
"""

from collections.abc import Iterable
from typing import Any

VOCABULARY = 4096
MIN_FREQUENCY = 3
# Words of one case, digits one by one, everything else one character at a time.
PIECES = r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]|[^A-Za-z0-9]"
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
SCAFFOLD = [
    "<tools>",
    "</tools>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    '{"name": "search", "arguments": {"query": "',
    '{"name": "python", "arguments": {"code": "',
    '"}}',
    "\\boxed{",
]
CHAT_TEMPLATE = """\
{%- if messages[0].role == 'system' or tools %}{{ '<|im_start|>system\\n' }}
{%- if messages[0].role == 'system' %}{{ messages[0].content }}{% endif %}
{%- if tools %}{{ '\\n<tools>' }}
{%- for tool in tools %}{{ '\\n' + tool.function.name + '(' }}
{%- for name in tool.function.parameters.properties %}{{ name }}{{ ', ' if not loop.last }}
{%- endfor %}{{ ')' }}{% endfor %}{{ '\\n</tools>' }}{% endif %}{{ '<|im_end|>\\n' }}{% endif %}
{%- for message in messages %}
{%- if message.role == 'user' %}{{ '<|im_start|>user\\n' + message.content + '<|im_end|>\\n' }}
{%- elif message.role == 'assistant' %}{{ '<|im_start|>assistant\\n' }}
{{- message.content or '' }}
{%- for call in message.tool_calls or [] %}
{{- '\\n' if message.content or not loop.first }}
{{- '<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
{{- call.function.arguments if call.function.arguments is string
    else call.function.arguments | tojson }}
{{- '}\\n</tool_call>' }}{% endfor %}{{ '<|im_end|>\\n' }}
{%- elif message.role == 'tool' %}{{ '<|im_start|>user\\n<tool_response>\\n' }}
{{- message.content + '\\n</tool_response><|im_end|>\\n' }}{% endif %}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""


def train_tokenizer(texts: Iterable[str], vocabulary: int = VOCABULARY) -> Any:
    """Train the tokenizer on `texts`; returns a transformers `PreTrainedTokenizerFast`.

    `vocabulary` counts every token, special ones included. Merges rarer than 3 are left out,
    because training would hardly see such tokens.
    """
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, pre_tokenizers
    from tokenizers.models import BPE
    from tokenizers.trainers import BpeTrainer
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = BpeTrainer(
        vocab_size=vocabulary - len(SCAFFOLD),
        min_frequency=MIN_FREQUENCY,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_tokens([AddedToken(text, normalized=False, special=False) for text in SCAFFOLD])
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        model_max_length=2048,
        clean_up_tokenization_spaces=False,
    )
    wrapped.chat_template = CHAT_TEMPLATE
    return wrapped
