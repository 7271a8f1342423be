"""Programs that make domains without a model: one file or folder, and one line here each."""

from tutti.tasks.synthesis.programs.program import Program

PROGRAMS: dict[str, Program] = {}
