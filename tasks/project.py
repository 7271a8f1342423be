"""Where this project's own files are: the folder that holds ``tutti``, its registry and suites."""

from pathlib import Path

import tutti

PROJECT = Path(tutti.__file__).resolve().parents[1]
DEPLOYMENTS = PROJECT / "deployments"
MODELS = DEPLOYMENTS / "models.yaml"
SUITES = DEPLOYMENTS / "suites"
