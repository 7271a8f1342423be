"""The errors that tutti raises on purpose, and the exit code of each.

The command line prints the message of a `TuttiError` on one line and exits with its code. Any
other exception is a bug, or comes from DuckDB or pydantic (see `cli/base/failures.py`).

TuttiError                   1  the work failed for a known cause
├── UsageError               2  the command line asks for something impossible
│   └── JobError             2    tasks/training/jobs/job.py: a training job is invalid
├── StoreError               1  storage/base/errors.py
├── ServingError             1  tasks/serving/errors.py
│   ├── RegistryError        2    models.yaml is invalid
│   │   └── WeightsError     2    a checkpoint is missing or incomplete
│   ├── PriceError           2    the price file is invalid
│   └── EngineLost           5    an engine died while serving
├── GpuError                 1  tasks/platform/gpus/errors.py
│   ├── NoSuchGpu            2    more cards than there are, or an unknown one
│   └── GpuLost              5    another run took the card
├── AccessError              2  tasks/serving/gateway/calls/access.py: the tokens are invalid
├── SimulationError          2  tasks/serving/simulation/workload.py
├── SuiteError               2  tasks/sweeps/__init__.py: a suite file is invalid
│   └── GateError            2    a gate file is invalid
├── BenchmarkError           2  tasks/benchmarks/errors.py
│   ├── SourceMissing        1    the data are not there
│   └── BadRow               1    a row of the data is not an item
├── AgentFileError           2  tasks/agents/orchestrator/agent_file.py: an agent file is invalid
├── ModelCallFailed          1  tasks/agents/models/model.py
├── ContextExceeded          1  tasks/agents/models/model.py
├── ToolUnavailable          1  tasks/agents/tools/tool.py
├── SandboxUnavailable       1  tasks/sandbox/values.py
├── ScorerFailed             1  tasks/scoring/rules/score.py
├── RetrievalError           1  tasks/retrieval/errors.py
├── ToolkitFailed            1  tasks/synthesis/domains/toolkit.py
├── NothingMade              1  tasks/task_sets/make.py: the gates passed too few tasks
├── SetUnfinished            5  tasks/synthesis/making/by_program.py: a teacher has not done all
├── TeacherFailed            1  tasks/synthesis/teacher/faults.py: the answers were of no use
│   └── TeacherLost          5    the teacher's endpoint failed
├── BudgetSpent              5  tasks/synthesis/teacher/faults.py
├── TrainingFailed           1  tasks/training/jobs/stage.py
├── WallTimeReached          5  tasks/training/jobs/stage.py: saved before its limit
└── RewardError              1  tasks/training/jobs/rewards.py

Codes 3 and 4 belong to no error: a command that did its work returns them for its verdict.

This module imports nothing of ours and no third-party package: it is also loaded in the models
environment, which has neither pydantic nor SQLAlchemy.
"""

from enum import IntEnum
from typing import ClassVar


class ExitCode(IntEnum):
    """Exit codes of `tutti`; the same for all commands."""

    DONE = 0
    """It is done, and nothing is worse."""
    FAILED = 1
    BAD_USAGE = 2
    WORSE = 3
    """A comparison is worse, or a gate failed."""
    INCONCLUSIVE = 4
    """The data decide nothing."""
    INCOMPLETE = 5
    """A budget, a limit or a lost endpoint ended the work: run the command again to resume."""
    INTERRUPTED = 130
    """By Ctrl-C; finished work is kept."""


class TuttiError(Exception):
    """The root of tutti's errors. The message says what happened, to what, and what to do."""

    exit_code: ClassVar[ExitCode] = ExitCode.FAILED


class UsageError(TuttiError, ValueError):
    """The user requested something that does not exist or is not possible."""

    exit_code = ExitCode.BAD_USAGE
