"""The errors that tutti raises on purpose, and the exit code of each.

The command line prints the message of a `TuttiError` on one line and exits with its code. Any
other exception is a bug, or comes from DuckDB or pydantic (see `cli/failures.py`).

TuttiError                   1  the work failed for a known cause
├── UsageError               2  the command line asks for something impossible
│   └── JobError             2    tasks/training/job.py: a training job is invalid
├── StoreError               1  storage/errors.py
├── ServingError             1  tasks/serving/errors.py
│   ├── RegistryError        2    models.yaml is invalid
│   │   └── WeightsError     2    a checkpoint is missing or incomplete
│   └── PriceError           2    the price file is invalid
├── GpuError                 1  tasks/gpus/errors.py
│   └── NoSuchGpu            2    more cards than there are, or an unknown one
├── AccessError              2  tasks/serving/gateway/admin/access.py: the tokens are invalid
├── SimulationError          2  tasks/serving/simulation/errors.py
├── SuiteError               2  tasks/sweeps/errors.py: a suite file is invalid
│   └── GateError            2    a gate file is invalid
├── BenchmarkError           2  tasks/benchmarks/errors.py
│   ├── SourceMissing        1    the data are not there
│   └── BadRow               1    a row of the data is not an item
├── AgentFileError           2  tasks/agents/orchestrator/agent_file.py: an agent file is invalid
├── ModelCallFailed          1  tasks/agents/models/model.py
├── ContextExceeded          1  tasks/agents/models/model.py
├── ToolUnavailable          1  tasks/agents/tools.py
├── SandboxUnavailable       1  tasks/sandbox/values.py
├── ScorerFailed             1  tasks/scoring/score.py
├── RetrievalError           1  tasks/retrieval/errors.py
├── ToolkitFailed            1  tasks/synthesis/domains/toolkit.py
├── NothingMade              1  tasks/synthesis/making/request.py: the gates passed too few tasks
├── TeacherFailed            1  tasks/synthesis/teacher/faults.py
├── BudgetSpent              1  tasks/synthesis/teacher/faults.py
├── TrainingFailed           1  tasks/training/stage.py
├── WallTimeReached         75  tasks/training/stage.py: saved; to be submitted again
└── RewardError              1  tasks/training/rewards/outcome.py

Exit code 3 (`INCONCLUSIVE`) belongs to no error. A verb that did its work returns it when a verdict
is inconclusive, a gate failed, or cells are incomplete. 75 (`SUBMIT_AGAIN`, EX_TEMPFAIL of
sysexits.h) means that a training was saved before its wall-time limit: the same command goes on.

This module imports nothing of ours and no third-party package: it is also loaded in the models
environment, which has neither pydantic nor SQLAlchemy.
"""

from typing import ClassVar

FAILED, BAD_USAGE, INCONCLUSIVE = 1, 2, 3
"""Exit codes of `tutti`; 0 is success."""
SUBMIT_AGAIN = 75
"""Exit code of a training, and of its trainer, that was saved before its wall-time limit."""


class TuttiError(Exception):
    """The root of tutti's errors. The message says what happened, to what, and what to do."""

    exit_code: ClassVar[int] = FAILED


class UsageError(TuttiError, ValueError):
    """What the user asked for does not exist or is not possible."""

    exit_code = BAD_USAGE
