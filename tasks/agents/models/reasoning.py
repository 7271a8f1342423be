"""Separates the reasoning in a model's text from its reply.

The setting ``auto`` separates a text that starts with a known opening tag, ``off`` leaves all texts
unchanged, and an end tag, such as ``</think>``, ends the reasoning with or without an opening tag
(NeMo-Skills' `parse_reasoning`). The last end tag counts; unfinished reasoning has no reply.
"""

import re
from collections.abc import Mapping
from typing import Any

AUTO, OFF = "auto", "off"
TAGS: Mapping[str, str] = {
    "<think>": "</think>",
    "<seed:think>": "</seed:think>",
    "<mm:think>": "</mm:think>",
    "<ifm|think>": "</ifm|think>",
    "<ifm|think_fast>": "</ifm|think_fast>",
    "<ifm|think_faster>": "</ifm|think_faster>",
    "[THINK]": "[/THINK]",
    "◁think▷": "◁/think▷",
    "<|START_THINKING|>": "<|END_THINKING|>",
    "<|channel>": "<channel|>",
    "<|open|>think<|sep|>": "<|close|>think<|sep|>",
    "<|plamo:begin_think:plamo|>": "<|plamo:end_think:plamo|>",
    "<|channel|>analysis<|message|>": "<|channel|>final<|message|>",
}
"""Opening tags and their ends: those of vLLM's parsers of reasoning, and Kimi-VL's. The last is
gpt-oss's format, whose reply begins after the mark of its channel `final`."""
_SUFFIXED = re.compile(r"<think(:[^<>\s]{1,40})>")  # Hunyuan's tags have a suffix of the checkpoint


def check_reasoning(setting: str) -> str:
    """The setting itself. Raises ValueError if it is neither `auto`, `off` nor an end tag."""
    if setting in (AUTO, OFF) or (setting.strip() and not setting.strip()[0].isalnum()):
        return setting
    raise ValueError(f"{setting!r} is neither {AUTO}, {OFF} nor an end tag, such as </think>")


def separate(text: str, setting: str) -> tuple[str, str] | None:
    """The reasoning, without its tags, and the reply; None if the text is all reply."""
    if setting == OFF or not text.strip():
        return None
    opening = _opening_tag(text)
    end = TAGS.get(opening, opening.replace("<", "</", 1)) if setting == AUTO else setting
    if not end:
        return None
    reasoning, ended, reply = text.rpartition(end)
    if not ended:
        reasoning, reply = text, ""
    return reasoning.lstrip().removeprefix(opening), reply.strip()


def separated(message: Mapping[str, Any], setting: str) -> dict[str, Any]:
    """The message with the reasoning of its text in `reasoning`, unless that is already set."""
    content = message.get("content")
    if message.get("reasoning") is not None or not isinstance(content, str):
        return dict(message)
    parts = separate(content, setting)
    if parts is None:
        return dict(message)
    return {**message, "content": parts[1], "reasoning": parts[0]}


def _opening_tag(text: str) -> str:
    """The known tag that a text starts with; empty if it starts with none."""
    start = text.lstrip()
    suffixed = _SUFFIXED.match(start)
    if suffixed:
        return suffixed[0]
    return next((tag for tag in TAGS if start.startswith(tag)), "")
