"""What a suite says about a benchmark of the user's own."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class OwnReading:
    """How to read and score the user's own file; None leaves the choice to the file's reader."""

    scorer: str | None = None
    """The scorer's name. Required for a JSONL file."""
    question_field: str | None = None
    answer_field: str | None = None
    prompt: str | None = None
    """A prompt's name, a YAML file, or a template."""
    source: Path | None = None
    """What `OwnBenchmark.load` gets."""
