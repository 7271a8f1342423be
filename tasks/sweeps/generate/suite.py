"""A part of a request as a suite: one cell, whose samples are rows at seeds.

In: a request, a part, the number of its rows. Out: the kept suite and registry, and the settings
that replies depend on.
"""

import json
from pathlib import Path
from typing import Any, cast

from tutti.tasks.agents.models import AUTO, OFF
from tutti.tasks.benchmarks import load_prompt
from tutti.tasks.scoring import UNSCORED
from tutti.tasks.serving import is_url, short_name
from tutti.tasks.sweeps.from_flags import KeptSweep, RunSettings, keep_sweep
from tutti.tasks.sweeps.generate.check import CheckedFile
from tutti.tasks.sweeps.generate.kept import Part
from tutti.tasks.sweeps.generate.request import SEEDED_TEMPERATURE, GenerateRequest
from tutti.tasks.sweeps.spec import AXIS, RUN, Suite, marks_of

OF_THE_WORK = frozenset(("name", "benchmark", "where", "trials", "first_trial"))
"""Fields of a suite that say which rows and samples, and not what a reply is."""
GIVEN = ("temperature", "max_tokens", "max_turns", "question_field", "python", "mcp")
"""Flags whose value is that of the suite's field."""


async def suite_of_part(request: GenerateRequest, part: Part, rows: int) -> KeptSweep:
    """Write the suite of a part, as `tutti run` does. Raises as `keep_sweep`."""
    assert request.model is not None, "a request that generates names a model"
    settings: dict[str, Any] = {
        **request.settings,
        "name": _name(request, part),
        "scorer": UNSCORED.name,
        "trials": part.count,
        "first_trial": part.first or None,
        "concurrency": (part.concurrency,),
        "policies": ("passthrough",),
        "where": _where(request, rows),
    }
    if request.reasoning not in (AUTO, OFF):
        settings["reasoning"] = OFF  # lines split the reply: only the whole one has its end tag
    if settings.get("temperature") is None and request.samples is not None:
        settings["temperature"] = SEEDED_TEMPERATURE
    prompt = settings.get("prompt")
    if prompt is not None and "{" not in prompt and Path(prompt).is_file():
        settings["prompt"] = str(Path(prompt).resolve())  # the kept suite is run from any folder
    file = str(request.file.resolve())
    return await keep_sweep(file, request.model, cast(RunSettings, settings))


def settings_of(suite: Suite, request: GenerateRequest, checked: CheckedFile) -> dict[str, Any]:
    """What the request's replies and lines depend on, besides rows and seeds."""
    marks = marks_of(Suite)
    kept = {
        name: value
        for name, value in suite.given_fields().items()
        if marks[name] not in (AXIS, RUN) and name not in OF_THE_WORK
    }
    if suite.data.prompt is not None:
        kept["prompt"] = load_prompt(suite.data.prompt).prompt_id
    normal: dict[str, Any] = json.loads(json.dumps(kept))
    return normal | {"model": suite.model} | given_settings(request, checked)


def given_settings(request: GenerateRequest, checked: CheckedFile) -> dict[str, Any]:
    """Those of `settings_of` that are known without the model."""
    kept: dict[str, Any] = {"rows_and_prompt": checked.content, "rows": len(checked.task_ids)}
    kept |= {"key": request.key, "times": request.times, "seeds": request.samples is not None}
    kept |= {"reasoning": request.reasoning}
    if request.model is not None and not is_url(request.model):
        kept["model"] = request.model
    if request.solutions is not None:
        kept |= {"combine": request.solutions.combine, "window": request.solutions.window}
    flags = {name: request.settings.get(name) for name in GIVEN}
    return kept | {name: value for name, value in flags.items() if value is not None}


def _name(request: GenerateRequest, part: Part) -> str:
    """The sweep's name: a part has the same whoever runs it."""
    given = request.settings.get("name")
    model = str(request.model).rpartition("://")[2]
    words = [given or short_name(f"generate-{request.file.stem}-{model}")]
    if part.first:
        words.append(f"rs{part.first}")
    if request.chunk is not None:
        words.append(f"chunk-{request.chunk}-of-{request.chunks}")
    return "-".join(words)


def _where(request: GenerateRequest, rows: int) -> str | None:
    """The filter of the rows that are asked: the request's own, and its chunk's."""
    own, some = request.settings.get("where"), _some(request, rows)
    return f"({own}) and {some}" if own and some else own or some


def _some(request: GenerateRequest, rows: int) -> str | None:
    if request.chunk is None and request.limit is None:
        return None
    chosen = request.rows_of(request.chunk, rows) if request.chunk is not None else range(rows)
    return f"id::bigint >= {chosen.start} and id::bigint < {chosen.stop}"
