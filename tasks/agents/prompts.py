"""The agent's system prompt, and the form of its final answer."""

import re

SYSTEM_PROMPT = "Answer with the tools. Put the final answer in \\boxed{}."
BOXED_START = "\\boxed{"


def opening(question: str) -> list[dict[str, str]]:
    """The messages that an attempt begins with."""
    return [{"role": "system", "content": SYSTEM_PROMPT}, {"role": "user", "content": question}]


def boxed(answer: str) -> str:
    """The final message for `answer`."""
    return f"{BOXED_START}{answer}}}"


def last_boxed(text: str) -> str | None:
    r"""The content of the last ``\boxed{...}`` in `text`, braces balanced; None if absent."""
    start = text.rfind(BOXED_START)
    if start < 0:
        return None
    depth = 1
    begin = start + len(BOXED_START)
    for offset, character in enumerate(re.sub(r"\\[{}]", "  ", text[begin:])):
        depth += {"{": 1, "}": -1}.get(character, 0)
        if depth == 0:
            return text[begin : begin + offset].strip()
    return None
