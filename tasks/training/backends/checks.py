"""Checks a configuration with a backend's own schema: ``python checks.py BACKEND FILE``.

Run with ``-I`` in the backend's environment, where tutti is not installed; uses only the standard
library and the backend. If the schema refuses the configuration, it exits with 3 and one line on
standard error.
"""

import importlib.util
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

REFUSED = 3


def llama_factory(file: Path) -> None:
    """Check with the parser of LLaMA-Factory's command line."""
    import torch
    import yaml
    from llamafactory.hparams import get_train_args

    given = yaml.safe_load(file.read_text())
    # Without a GPU its parser refuses bfloat16 unless the CPU is asked for.
    get_train_args({"use_cpu": not torch.cuda.is_available()} | given)


def trl(file: Path) -> None:
    """Check with TRL's dataclass."""
    import torch
    from trl import SFTConfig

    SFTConfig(**{"use_cpu": not torch.cuda.is_available()} | json.loads(file.read_text())["config"])


def verl(entry: str, file: Path) -> None:
    """Check with Hydra, over the configuration in verl's package."""
    from hydra import compose, initialize_config_dir

    package = importlib.util.find_spec("verl")
    assert package is not None and package.origin is not None, "verl is not installed here"
    folder = Path(package.origin).parent / "trainer" / "config"
    with initialize_config_dir(str(folder), version_base=None):
        compose(entry, overrides=file.read_text().splitlines())


def prime_rl(module: str, model: str, file: Path) -> None:
    """Check with prime-rl's pydantic model; the taskset of a policy job is in the file's folder."""
    import tomllib

    from pydantic import ValidationError

    sys.path.insert(0, str(file.parent))
    schema: Any = getattr(importlib.import_module(f"prime_rl.configs.{module}"), model)
    try:
        schema.model_validate(tomllib.loads(file.read_text()))
    except ValidationError as error:
        faults = (f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        raise ValueError("; ".join(faults)) from None


CHECKS: dict[str, Callable[[Path], None]] = {
    "llama-factory": llama_factory,
    "trl": trl,
    "verl": partial(verl, "sft_trainer_engine"),
    "verl-rl": partial(verl, "ppo_trainer"),
    "prime-rl": partial(prime_rl, "sft", "SFTConfig"),
    "prime-rl-rl": partial(prime_rl, "rl", "RLConfig"),
}


if __name__ == "__main__":
    try:
        CHECKS[sys.argv[1]](Path(sys.argv[2]))
    except ImportError:
        raise  # the environment is broken, so the configuration is not checked
    except Exception as error:  # the exception of a schema is its refusal
        print(" ".join(f"{type(error).__name__}: {error}".split()), file=sys.stderr)
        sys.exit(REFUSED)
