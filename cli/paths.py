"""Where this project's own files are: what verbs take when no other is named."""

from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
MODELS = PROJECT / "deployments" / "models.yaml"
SUITES = PROJECT / "deployments" / "suites"
