"""Tests of prompts: no placeholder is left unfilled, and inserted text is not expanded again."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.tasks.benchmarks import BENCHMARKS, Prompt, Task, first_prompt, load_prompt
from tutti.tasks.benchmarks.errors import BadPrompt
from tutti.tasks.benchmarks.prompt import FOLDER, PromptFile, Template

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,6}", fullmatch=True)


def task(**fields: str) -> Task:
    return Task("i", fields, {"answer": "a"})


def prompt(**parts: object) -> Prompt:
    return Prompt("p", PromptFile.model_validate(parts))


@given(st.lists(st.tuples(st.text(), NAMES), max_size=6), st.text(), st.data())
def test_no_place_is_left_unfilled(
    parts: list[tuple[str, str]], end: str, data: st.DataObject
) -> None:
    """Any template renders to its own text with each field's value inserted, including braces."""
    values = {name: data.draw(st.text()) for _, name in parts}
    escaped = [(text.replace("{", "{{").replace("}", "}}"), name) for text, name in parts]
    written = "".join(f"{text}{{{name}}}" for text, name in escaped)
    written += end.replace("{", "{{").replace("}", "}}")
    template = Template(written)
    assert template.render(values) == "".join(t + values[n] for t, n in parts) + end
    assert template.fields == list(dict.fromkeys(name for _, name in parts))


@given(st.dictionaries(NAMES, st.text(), min_size=1), NAMES)
def test_a_field_that_is_missing_is_an_error(values: dict[str, str], name: str) -> None:
    """A prompt never has an empty place or a placeholder's name."""
    values.pop(name, None)
    with pytest.raises(BadPrompt, match=f"no field '{name}'"):
        Template(f"x {{{name}}}").render(values)


@pytest.mark.parametrize("text", ["{", "}", "a {b c}", "{}", "{0}", "{{{", "\\boxed{}", "{a.b}"])
def test_a_lone_brace_is_an_error(text: str) -> None:
    """Braces around anything but a name must be doubled."""
    with pytest.raises(BadPrompt, match="a lone brace"):
        Template(text)


def test_text_put_in_is_not_a_template() -> None:
    r"""A question with {question} and \boxed{} is inserted unchanged."""
    asked = "What does {answer} and {{x}} and \\boxed{} do?"
    assert load_prompt("math").render(task(question=asked))[0]["content"].startswith(asked)


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.yaml")), ids=lambda path: path.stem)
def test_every_prompt_renders(path: Path) -> None:
    """Each prompt file shipped with tutti is valid and has no unfilled placeholder when its fields
    are given."""
    loaded = load_prompt(path.stem)
    texts = [text for text in (loaded.file.system, loaded.file.user) if text]
    fields = {name: f"<{name}>" for text in texts for name in Template(text).fields}
    for message in loaded.render(task(**fields)):
        assert not re.search(r"\{[A-Za-z_]\w*\}", message["content"])
    assert loaded.prompt_id.startswith("prompt:")


def test_every_benchmark_s_prompt_exists() -> None:
    """The names in BENCHMARKS are files."""
    for benchmark in BENCHMARKS.values():
        load_prompt(benchmark.prompt)


def test_an_unknown_prompt_lists_the_known_ones(tmp_path: Path) -> None:
    """Errors are raised for an unknown name, an invalid prompt file and a misspelt part."""
    with pytest.raises(BadPrompt, match="there are choice, complete_code"):
        load_prompt("chioce")
    for wrong in ("users: x", "- a", "user: [", "examples: {assistant: a}\nuser: x"):
        (tmp_path / "p.yaml").write_text(wrong)
        with pytest.raises(BadPrompt, match=r"p\.yaml"):
            load_prompt(tmp_path / "p.yaml")


def test_given_examples_are_turns_before_the_question() -> None:
    """The order is system, one turn for each example, then the question; the task itself is never
    an example."""
    examples = {
        "assistant": "A: {answer}",
        "given": [{"question": "1?", "answer": "1"}, {"question": "2?", "answer": "2"}],
    }
    made = prompt(system="s", user="Q: {question}", examples=examples)
    messages = made.render(task(question="3?"))
    assert [m["content"] for m in messages] == ["s", "Q: 1?", "A: 1", "Q: 2?", "A: 2", "Q: 3?"]
    assert [m["role"] for m in messages[1:3]] == ["user", "assistant"]
    assert [m["content"] for m in made.render(task(question="2?"))[1:]] == [
        "Q: 1?",
        "A: 1",
        "Q: 2?",
    ]


def test_the_id_of_a_stored_prompt_stays() -> None:
    assert load_prompt("number_examples").prompt_id == "prompt:acde817d6333aaca"


def test_a_given_conversation_is_kept() -> None:
    """The prompt's system text is joined to the task's own; nothing is added after the last
    message."""
    talk = [{"role": "system", "content": "own"}, {"role": "user", "content": "hi {x}"}]
    given = Task("i", {}, {}, given=talk)
    messages = prompt(system="also", user="{question}").render(given)
    assert messages == [{"role": "system", "content": "own\n\nalso"}, talk[1]]


def test_an_image_is_a_part_of_its_own() -> None:
    """A task with an image gets content parts, and the dry run does not print the bytes."""
    with_image = task(question="q", image="data:image/png;base64,AAAA")
    content = prompt(user="{question}").render(with_image)[0]["content"]
    assert [part["type"] for part in content] == ["text", "image_url"]
    assert content[1]["image_url"]["url"] == "data:image/png;base64,AAAA"
    shown = first_prompt(BENCHMARKS["hle-images"], [with_image])
    assert "<image_url>" in shown and "AAAA" not in shown


def test_the_first_prompt_names_benchmark_item_and_tools() -> None:
    """The dry run prints these; without a task it is an error."""
    tool = {"type": "function", "function": {"name": "add", "parameters": {}}}
    one = Task("7", {"question": "q"}, {"answer": "a"}, tools=[tool])
    shown = first_prompt(BENCHMARKS["gsm8k"], [one])
    assert "gsm8k, task 7, scorer numeric" in shown and "## user\nq" in shown and "add" in shown
    with pytest.raises(BadPrompt, match="no task is selected"):
        first_prompt(BENCHMARKS["gsm8k"], [])
