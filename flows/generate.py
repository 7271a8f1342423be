"""Replies of a model to the rows of a file, for `tutti generate`.

In: a request. Out: ``output-rs{S}.jsonl``, and attempts, calls and messages in the store. Stored
replies are not generated again, so the same command resumes after a kill.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tutti.flows.sweep import measure
from tutti.tasks.platform.progress import open_run
from tutti.tasks.serving import EndpointFailed
from tutti.tasks.sweeps.from_flags import entry_name
from tutti.tasks.sweeps.generate import (
    CheckedFile,
    GenerateRequest,
    Part,
    Prompts,
    check_file,
    check_written,
    given_settings,
    merge_chunks,
    open_work,
    prompts_of,
    settings_of,
    suite_of_part,
    write_seeds,
)
from tutti.tasks.sweeps.spec import Suite

MOST_CUT = 0.01
"""Of the replies: a larger share that ends by length is said."""


@dataclass
class GenerateResult:
    """The result of a request."""

    rows: int
    written: list[Path] = field(default_factory=list)
    missing: list[Path] = field(default_factory=list)
    """Files that are not whole yet; the same command goes on."""
    chunks_missing: list[Path] = field(default_factory=list)
    """Chunks of other machines that are not in the folder yet."""
    sweeps: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


async def generate_outputs(request: GenerateRequest, concurrency: int) -> GenerateResult:
    """Generate the missing replies, and write and merge complete files.

    Raises BadRow with file, line and field before anything is served; UsageError for a folder with
    replies of other settings or a file that is not of these rows; and the errors of `eval_sweep`.
    """
    checked = check_file(request)
    rows = len(checked.task_ids)
    result = GenerateResult(rows)
    if request.model is not None:
        await _generate(request, checked, concurrency, result)
    if request.chunks > 1:
        merged, result.chunks_missing = merge_chunks(request, rows)
        result.written += merged
    request.mark_done()
    return result


async def _generate(
    request: GenerateRequest, checked: CheckedFile, concurrency: int, result: GenerateResult
) -> None:
    work = open_work(request, concurrency)
    settings = given_settings(request, checked)
    if not work.left and "model" not in settings:
        settings |= await _served_model(request, result)
    work.check(settings)
    check_written(request, len(checked.task_ids))
    for part in work.dropped:
        names = f"seeds {part.first} to {part.first + part.count - 1}"
        result.notes.append(f"{names} were begun together; those now asked for begin anew")
    for part in work.left:
        if part.concurrency != concurrency:
            words = f"was begun with --concurrency {part.concurrency}, and goes on with it"
            result.notes.append(f"seed {part.first} {words}")
        prompts = prompts_of(request, checked, part)
        kept = await suite_of_part(prompts.request, part, len(checked.task_ids))
        work.write(settings_of(kept.suite, request, checked))
        if kept.assumed_context:
            result.notes.append(kept.words)
        await _run_part(request, checked, prompts, part, (kept.suite, kept.models), result)


async def _served_model(request: GenerateRequest, result: GenerateResult) -> dict[str, Any]:
    """Return the setting `model` of an endpoint; nothing, and a note, if it does not answer."""
    assert request.model is not None, "a request that generates names a model"
    try:
        return {"model": await entry_name(request.model, request.settings)}
    except EndpointFailed as error:
        said = "so it is not known whether it serves the model of the replies there"
        result.notes.append(f"{error}; {said}")
        return {}


async def _run_part(
    request: GenerateRequest,
    checked: CheckedFile,
    prompts: Prompts,
    part: Part,
    kept: tuple[Suite, Path],
    result: GenerateResult,
) -> None:
    suite, models = kept
    parameters = {"suite": suite.model_dump(mode="json"), "models": str(models)}
    sweep_id = None
    with open_run("generate", parameters | {"file": str(request.file)}) as run:
        if any(prompts.task_ids):
            sweep_id = await measure(suite, models, run, publish=False)
        written = write_seeds(request, checked, prompts, part, sweep_id)
    result.written += written
    rows, cut = len(written) * len(prompts.task_ids), sum(written.values())
    if cut > MOST_CUT * rows:
        result.notes.append(
            f"{cut} of {rows} replies were cut off by their length limit "
            f"({suite.sampling.max_tokens} tokens): raise --max-tokens, with another --out"
        )
    result.sweeps += [] if sweep_id is None else [sweep_id]
    files = [request.path_of(seed, request.chunk) for seed in part.seeds]
    result.missing += [path for path in files if not path.exists()]
