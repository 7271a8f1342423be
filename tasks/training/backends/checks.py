"""Asks a backend's own schema about a configuration: ``python checks.py BACKEND FILE``.

Run with ``-I`` in the backend's environment, where tutti is not: Python's own modules and the
backend's only. Exit code 3 with one line on standard error where the schema refuses it.
"""

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

REFUSED = 3


def llama_factory(file: Path) -> None:
    """By the parser of its command line."""
    import torch
    import yaml
    from llamafactory.hparams import get_train_args

    given = yaml.safe_load(file.read_text())
    # Without a GPU its parser refuses bfloat16 unless the CPU is asked for.
    get_train_args({"use_cpu": not torch.cuda.is_available()} | given)


def trl(file: Path) -> None:
    """By its dataclass."""
    import torch
    from trl import SFTConfig

    SFTConfig(**{"use_cpu": not torch.cuda.is_available()} | json.loads(file.read_text())["config"])


def verl(file: Path, entry: str = "sft_trainer_engine") -> None:
    """By Hydra, over the configuration in its package."""
    from hydra import compose, initialize_config_dir

    found = importlib.util.find_spec("verl")
    assert found is not None and found.origin is not None, "verl is not installed here"
    folder = Path(found.origin).parent / "trainer" / "config"
    with initialize_config_dir(str(folder), version_base=None):
        compose(entry, overrides=file.read_text().splitlines())


def verl_rl(file: Path) -> None:
    """As `verl`, for its reinforcement learning."""
    verl(file, "ppo_trainer")


def prime_rl(file: Path) -> None:
    """By its pydantic model."""
    from prime_rl.configs.sft import SFTConfig

    _validate(SFTConfig, file)


def prime_rl_rl(file: Path) -> None:
    """As `prime_rl`, for its reinforcement learning; the taskset is in the file's folder."""
    from prime_rl.configs.rl import RLConfig

    sys.path.insert(0, str(file.parent))
    _validate(RLConfig, file)


def _validate(model: Any, file: Path) -> None:
    import tomllib

    from pydantic import ValidationError

    try:
        model.model_validate(tomllib.loads(file.read_text()))
    except ValidationError as error:
        found = (f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        raise ValueError("; ".join(found)) from None


CHECKS = {"llama-factory": llama_factory, "trl": trl, "verl": verl, "prime-rl": prime_rl}
CHECKS |= {"verl-rl": verl_rl, "prime-rl-rl": prime_rl_rl}


def main() -> None:
    """See the module."""
    try:
        CHECKS[sys.argv[1]](Path(sys.argv[2]))
    except ImportError:
        raise  # the environment is broken, which says nothing of the configuration
    except Exception as error:  # whatever a schema raises says what it refuses
        print(" ".join(f"{type(error).__name__}: {error}".split()), file=sys.stderr)
        sys.exit(REFUSED)


if __name__ == "__main__":
    main()
