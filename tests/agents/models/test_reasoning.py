"""Tests of separating reasoning from a reply's text, by setting."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.tasks.agents.models.reasoning import (
    AUTO,
    OFF,
    TAGS,
    check_reasoning,
    separate,
    separated,
)

PLAIN = st.text(st.characters(categories=["L", "N", "P", "Zs"], exclude_characters="<>[]◁▷|"))


@pytest.mark.parametrize(
    ("text", "setting", "expected"),
    [
        ("<think>x</think>Paris", AUTO, ("x", "Paris")),
        ("\n <think>\nx\n</think>\n\nParis\n", AUTO, ("\nx\n", "Paris")),
        ("<think></think>Paris", AUTO, ("", "Paris")),
        ("<think>so it is #### 18", AUTO, ("so it is #### 18", "")),
        ("<think>a</think>b<think>c</think>d", AUTO, ("a</think>b<think>c", "d")),
        ("<think:6124c78e>x</think:6124c78e>Paris", AUTO, ("x", "Paris")),
        ("[THINK]x[/THINK]Paris", AUTO, ("x", "Paris")),
        ("<|channel|>analysis<|message|>x<|end|><|start|>assistant<|channel|>final<|message|>Paris",
         AUTO, ("x<|end|><|start|>assistant", "Paris")),
        ("Paris", AUTO, None),
        ("The tag <think>x</think> is HTML", AUTO, None),
        ("x</think>Paris", AUTO, None),
        ("<thinking>x</thinking>Paris", AUTO, None),
        ("", AUTO, None),
        ("<think>x</think>Paris", OFF, None),
        ("x</think>Paris", "</think>", ("x", "Paris")),
        ("<think>x</think>Paris", "</think>", ("x", "Paris")),
        ("never ended", "</think>", ("never ended", "")),
        ("  ", "</think>", None),
        ("<think>x</think>y<answer>Paris", "<answer>", ("x</think>y", "Paris")),
    ],
)  # fmt: skip
def test_what_is_the_reply(text: str, setting: str, expected: tuple[str, str] | None) -> None:
    assert separate(text, setting) == expected


@given(PLAIN, PLAIN, st.sampled_from(sorted(TAGS)))
def test_every_known_tag_separates_and_does_so_once(thought: str, reply: str, opening: str) -> None:
    """Every known tag separates the reasoning once, also if it is named by its closing tag;
    separating again changes nothing."""
    text = f"{opening}{thought}{TAGS[opening]}{reply}"
    assert separate(text, AUTO) == separate(text, TAGS[opening]) == (thought, reply.strip())
    assert separate(f"{opening}{thought}", AUTO) == (thought, "")
    once = separated({"role": "assistant", "content": text}, AUTO)
    assert once["content"] == reply.strip()
    assert separated(once, AUTO) == once


@given(PLAIN)
def test_a_text_without_a_tag_is_all_reply(text: str) -> None:
    assert separate(text, AUTO) is None


@pytest.mark.parametrize("setting", [AUTO, OFF, "</think>"])
def test_what_the_endpoint_separated_stays(setting: str) -> None:
    """Reasoning that the endpoint already separated, and a message without text, stay unchanged."""
    apart: dict[str, Any] = {"content": "Paris <think>", "reasoning": "x"}
    assert separated(apart, setting) == apart
    calls = {"content": None, "tool_calls": [{"id": "c1"}]}
    assert separated(calls, setting) == calls


@pytest.mark.parametrize("setting", ["", " ", "on", "true", "think"])
def test_what_is_no_setting(setting: str) -> None:
    with pytest.raises(ValueError, match="neither auto, off nor an end tag"):
        check_reasoning(setting)


@pytest.mark.parametrize("text", ["</think>\n\nParis", "\n</think>Paris", "<think></think>Paris"])
def test_an_empty_thought_is_separated_once(text: str) -> None:
    """Reading a stored message again with the same setting leaves its reply unchanged."""
    once = separated({"content": text}, "</think>")
    assert once == {"content": "Paris", "reasoning": ""}
    assert separated(once, "</think>") == once
