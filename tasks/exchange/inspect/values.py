"""Values of Inspect as values of our columns: text of content, scores, tokens."""

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from tutti.tasks.exchange.imported import Row
from tutti.tasks.exchange.rows import json_text

GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""Inspect's letters: correct, partial, incorrect, no answer."""
WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}


def content_of(content: Any) -> tuple[str, str | None, list[str]]:
    """Text, reasoning, and the kinds of other parts."""
    if isinstance(content, str):
        return content, None, []
    texts = [part.text for part in content if part.type == "text"]
    thoughts = [part for part in content if part.type == "reasoning"]
    others = [part.type for part in content if part.type not in ("text", "reasoning")]
    reasoning = "\n".join(part.reasoning or part.summary or "" for part in thoughts)
    return "\n".join(texts), reasoning if thoughts else None, others


def message_rows(messages: list[Any]) -> tuple[list[Row], list[tuple[int, str]]]:
    """Messages as rows (`_id` is Inspect's id), and position and kind of parts without a column."""
    rows, lost = [], []
    for place, message in enumerate(messages):
        text, reasoning, others = content_of(message.content)
        lost += [(place, kind) for kind in others]
        ours = (message.metadata or {}).get("tutti") or {}
        row: Row = {"role": ours.get("role", message.role), "content": text, "_id": message.id}
        if reasoning is not None:
            row["reasoning"] = reasoning
        if message.role == "assistant" and message.tool_calls:
            texts = ours.get("arguments") or [json_text(c.arguments) for c in message.tool_calls]
            row["tool_calls"] = [
                {"id": call.id, "name": call.function, "arguments": text}
                for call, text in zip(message.tool_calls, texts, strict=True)
            ]
        if message.role == "tool":
            row |= {"tool_call_id": message.tool_call_id, "name": message.function}
            if message.error is not None and not text:
                row["content"] = message.error.message
        rows.append(row)
    return rows, lost


def score_rows(sample: Any) -> list[Row]:
    """One row per scorer; for a scorer with several values one more row each, `name/key`.

    `detail` keeps the original value if the number does not represent it completely.
    """
    rows = []
    for name, score in (sample.scores or {}).items():
        value = score.value
        metadata = dict(score.metadata or {})
        ours = metadata.pop("tutti", {})
        detail: Row = {"target": sample.target or None, "explanation": score.explanation}
        detail |= {"metadata": metadata or None, "reason": score.reason}
        if not isinstance(value, float) and not _is_whole(value):
            detail["value"] = value
        kept = {key: given for key, given in detail.items() if given is not None}
        row: Row = {"scorer": name, "answer": score.answer}
        row["detail"] = json_text(kept) if kept else None
        rows.append(row | _judged(value) | own_columns(ours))
        if isinstance(value, list | tuple):
            value = {str(place): member for place, member in enumerate(value)}
        if isinstance(value, dict):
            rows += [
                {"scorer": f"{name}/{key}", "answer": score.answer} | _judged(member)
                for key, member in value.items()
            ]
    return rows


def own_columns(ours: Mapping[str, Any]) -> Row:
    """Columns that our export stored under `metadata.tutti`, with times parsed."""
    return {name: time_of(value) if name.endswith("_at") else value for name, value in ours.items()}


def time_of(value: Any) -> Any:
    """A time that Inspect gives as text; None for none."""
    return datetime.fromisoformat(value) if isinstance(value, str) and value else value or None


def _judged(value: Any) -> Row:
    number = number_of(value)
    graded = number is not None and 0 <= number <= 1
    return {"value": number, "correct": number == 1 if graded else None}


def number_of(value: Any) -> float | None:
    """A score's value as a number; None if it is not one (NaN is Inspect's "not scored")."""
    if isinstance(value, str):
        if value in GRADES:
            return GRADES[value]
        if value.lower() in WORDS:
            return WORDS[value.lower()]
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool | int | float) and math.isfinite(value):
        return float(value)
    return None


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def usage_of(usage: Any) -> Row:
    """Tokens and cost. Inspect's input tokens exclude cached ones; our prompt tokens include
    them."""
    cached = usage.input_tokens_cache_read
    prompt = usage.input_tokens + (cached or 0) + (usage.input_tokens_cache_write or 0)
    row: Row = {"prompt_tokens": prompt, "cached_tokens": cached}
    return row | {"completion_tokens": usage.output_tokens, "cost_usd": usage.total_cost}


def logprobs_of(choice: Any) -> list[float] | None:
    """Log probabilities of the tokens of an answer."""
    if choice.logprobs is None:
        return None
    return [token.logprob for token in choice.logprobs.content]


def tool_result(result: Any) -> str:
    """A tool's result as text."""
    if isinstance(result, str):
        return result
    if isinstance(result, list):
        return content_of(result)[0] or json_text([getattr(part, "type", None) for part in result])
    return str(getattr(result, "text", result))
