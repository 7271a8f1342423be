"""The settings of a sweep that has no suite file: the flags of `tutti run`, the keywords of
`tutti.run`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict


class RunSettings(TypedDict, total=False):
    """What is left out, or None, has a default."""

    registry: Path | None
    """The model registry; default: ``models.yaml`` in this folder, or else tutti's own."""
    name: str | None
    """The sweep's name; default: made of the benchmark and the model."""
    served_name: str | None
    """Of an endpoint: the model's name there; default: the only one that it lists."""
    api_key_env: str | None
    """Of an endpoint: the environment variable that holds its key."""
    context_tokens: int | None
    """Of an endpoint: prompt and answer together; default: what it reports, or 8,192."""
    concurrency: Sequence[int] | None
    """Sessions at once, one cell for each; default: 8."""
    policies: Sequence[str] | None
    """The gateway's scheduling policies; default: ``passthrough``."""
    limit: int | None
    """Only the first N tasks."""
    source: Path | str | None
    """The benchmark's data: a file or folder; default: download from the hub."""
    ids: Sequence[str] | None
    """Only these tasks."""
    where: str | None
    """SQL filter on the tasks' attributes."""
    split: str | None
    """The split of the benchmark; default: its own."""
    rule: str | None
    """How answers are scored; default: ``published``, the publisher's rule."""
    scorer: str | None
    """Of a JSONL file: how answers are compared: exact, numeric, math, choice, judge, or none."""
    question_field: str | None
    """Of a JSONL file; default: question, prompt or problem."""
    answer_field: str | None
    """Of a JSONL file; default: answer, target or expected_answer."""
    judge: str | None
    """The registry's model that judges answers."""
    user: str | None
    """The registry's model that simulates the user."""
    solo: bool | None
    """Of a synthesized domain: no user is simulated; the scenario is the first message."""
    agent: str | None
    """An orchestrator agent: its name or file."""
    temperature: float | None
    """0 is greedy."""
    max_tokens: int | None
    """Of one reply; default: half of the context, at most 16,384."""
    reasoning: str | None
    """What of a reply's text is its answer: ``auto`` (the default), ``off``, or an end tag."""
    max_turns: int | None
    """Calls of one attempt."""
    repeats: int | None
    """Times each cell is run, each with another seed."""
    trials: int | None
    """Samples of each task in a cell."""
    first_trial: int | None
    """The number of the first of them; seeds are made of it."""
    prompt: str | None
    """A prompt's name, a .yaml file, or a template."""
    python: str | None
    """The tool python: ``once`` or ``session``."""
    mcp: str | None
    """An MCP server whose tools the model gets: its URL or command."""
    search_index: str | None
    """An index that the model searches: its id or folder."""
    parallel: int | None
    """Solutions of each problem at once, 2 to 64, of which one answer is made."""
    combine: str | None
    """With `parallel`: ``select`` one of the solutions (default), or ``synthesis`` of a new one."""
    working_s: float | None
    """Seconds of one attempt."""
    budget_minutes: float | None
    """Stop starting samples after N minutes; run again to resume."""
    budget_usd: float | None
    """Stop starting samples after N USD are spent; run again to resume."""
    unsafe_sandbox: bool | None
    """Run model-written programs unsandboxed if this machine has no sandbox."""
