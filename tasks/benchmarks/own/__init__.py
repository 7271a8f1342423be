"""Benchmarks of the user's own: a JSONL file, or a Python file with one class."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.benchmarks.own.jsonl import ANSWER_FIELDS as ANSWER_FIELDS
    from tutti.tasks.benchmarks.own.jsonl import QUESTION_FIELDS as QUESTION_FIELDS
    from tutti.tasks.benchmarks.own.jsonl import SCORER_WORDS as SCORER_WORDS
    from tutti.tasks.benchmarks.own.jsonl import OwnReading as OwnReading
    from tutti.tasks.benchmarks.own.jsonl import generated_name as generated_name
    from tutti.tasks.benchmarks.own.python import python_benchmark as python_benchmark

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
