"""`tutti train`: the plan of a job, the pocket model, and fine-tuning on recordings."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding

from tutti import storage
from tutti.cli.base.failures import ExitCode
from tutti.cli.base.flow import run_flow, show_result
from tutti.cli.base.verbs import AsFlowRun, AsJson, Flags, ModelsFile, verb
from tutti.errors import UsageError
from tutti.tasks import training
from tutti.tasks.platform import TRAINED_POCKET
from tutti.tasks.serving import registry
from tutti.tasks.training import plans, policy
from tutti.terminal import table

WIDTH = 80
"""Columns of the table, so that it can be put into a mail or an issue."""


@verb
def train_plan(
    job: Annotated[Path, typer.Argument(help="job file (YAML) of `train sft` or `train grpo`")],
    *,
    models: ModelsFile,
    as_json: AsJson = False,
) -> ExitCode:
    """Show the plan and the requirements of a training, and what is missing here. Starts nothing.

    Exit code 1 if something is missing.
    """
    found = plans.plan_job(plans.read_any_job(job), models, storage.current_home())
    if as_json:
        typer.echo(json.dumps(found.content))
    else:
        _show_plan(found)
    return ExitCode.FAILED if found.missing else ExitCode.DONE


def _show_plan(found: "plans.JobPlan") -> None:
    console = Console(width=WIDTH, highlight=False)
    rows, before = [], ""
    for fact in found.facts:
        part = "" if fact.part == before else fact.part
        rows.append((part, fact.name.replace("_", " "), fact.text))
        before = fact.part
    heads = {"": "left", " ": "fold", "  ": "fold"}
    console.print(table(heads, rows, f"plan of {found.name}"))
    if not found.missing:
        console.print("nothing is missing here")
        return
    console.print("missing here:")
    for each in found.missing:
        console.print(f"- {escape(each.what)}")
        console.print(Padding(escape(each.todo), (0, 0, 0, 4)))


WallTime = Annotated[
    float | None,
    typer.Option(
        min=0.01, help="save and end before, with exit code 5 [Slurm's limit, where it runs there]"
    ),
]
JOB = "tasks/training/jobs/job.py"
SETTINGS = "tasks/training/jobs/settings.py"
Machine = Annotated[dict[str, Any], Flags(f"{JOB}:JobMachine", "gpus wall_time_minutes")]
Job = Annotated[dict[str, Any], Flags(f"{JOB}:TrainJob", "base epochs steps minutes backend")]
Data = Annotated[
    dict[str, Any],
    Flags(
        f"{JOB}:TrainingData",
        "query=--from file tokens splits=--split held_out_share=--held-out",
    ),
]
Learning = Annotated[dict[str, Any], Flags(f"{SETTINGS}:Learning", "objective seed")]
WriteOnly = Annotated[
    Path | None, typer.Option(help="write the backend's configuration here, and train nothing")
]


@verb
def train_sft(
    job: Annotated[
        Path | None, typer.Argument(help="job file (YAML); flags change what it says")
    ] = None,
    *,
    top: Job,
    data: Data,
    learning: Learning,
    optimizer: Annotated[dict[str, Any], Flags(f"{SETTINGS}:OptimizerSettings", "learning_rate")],
    lora: Annotated[dict[str, Any], Flags(f"{SETTINGS}:LoraSettings", "rank")],
    batch: Annotated[dict[str, Any], Flags(f"{SETTINGS}:BatchSettings", "sequences")],
    machine: Machine,
    write_only: WriteOnly = None,
    models: ModelsFile,
    prefect: AsFlowRun = False,
    as_json: AsJson = False,
) -> None:
    """Train a checkpoint or an adapter on attempts that a query names."""

    from tutti.flows.train_set import train_set

    if "query" in data:
        data["from"] = data.pop("query")
    given = {"data": data, "optimizer": optimizer, "lora": lora, "batch": batch}
    given |= top | learning | machine
    chosen = training.job_with(job, given)
    if write_only is not None:
        base, _ = training.base_of(chosen.base, models)
        with storage.open_catalog() as catalog:
            training_set = training.frozen_set(chosen, base, catalog)
            written = training.configure_backend(chosen, base, training_set, write_only, catalog)
        return _show_written(written, as_json)
    show_result(run_flow(train_set, prefect, as_json, chosen, models), as_json)


def _show_written(made: dict[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(made))
        return
    typer.echo(f"wrote {made['folder']}, checked by {made['checked']}")
    for note, count in made["notes"].items():
        typer.echo(f"  {count} {note}")
    for difference in made.get("differences", ()):
        typer.echo(f"  differs: {difference}")
    typer.echo(f"launch: {made['launch']}")


@verb
def train_grpo(
    job: Annotated[Path, typer.Argument(help="job file (YAML)")],
    wall_time_minutes: WallTime = None,
    backend: Annotated[
        str | None, typer.Option(help="trainer of a cluster, with --write-only: verl, prime-rl")
    ] = None,
    write_only: WriteOnly = None,
    *,
    models: ModelsFile,
    prefect: AsFlowRun = False,
    as_json: AsJson = False,
) -> None:
    """Train a policy on its own attempts, through the gateway: GRPO, DAPO, EPO and others."""

    from tutti.flows.train_policy import train_policy

    chosen = policy.read_policy_job(job)
    if wall_time_minutes is not None:
        chosen = chosen.model_copy(update={"wall_time_minutes": wall_time_minutes})
    if (backend is None) != (write_only is None):
        raise UsageError("--backend, --write-only: give both, to write what its cluster needs")
    if backend is not None and write_only is not None:
        home = storage.current_home()
        store = home if home.root.is_dir() else None
        model = registry.pick_model(models, chosen.base)
        written = training.configure_policy(chosen, backend, model, write_only, store)
        return _show_written(written, as_json)
    show_result(run_flow(train_policy, prefect, as_json, chosen, models), as_json)


@verb
def train_pocket(
    out: Annotated[Path, typer.Option(help="folder of the checkpoint")] = TRAINED_POCKET,
    *,
    given: Annotated[
        dict[str, Any], Flags("flows/train.py:PocketParameters", "steps seed evaluate_only")
    ],
    models: ModelsFile,
    prefect: AsFlowRun = False,
    as_json: AsJson = False,
) -> None:
    """Train the pocket model from scratch and evaluate it on held-out documents."""

    from tutti.flows.train import PocketParameters
    from tutti.flows.train import train as flow

    parameters = PocketParameters.model_validate(given)
    show_result(run_flow(flow, prefect, as_json, parameters, out, models), as_json)


VERBS = {"plan": train_plan, "sft": train_sft, "grpo": train_grpo, "pocket": train_pocket}
