"""IFEval and IFBench: prompts with instructions that a program can check (no comma, 300 words)."""

from collections.abc import Iterator

from tutti.tasks.benchmarks.benchmark import Benchmark, no_gold
from tutti.tasks.benchmarks.headline import SHARE_RIGHT
from tutti.tasks.benchmarks.source import Files, Hub
from tutti.tasks.task_sets import Task


def read(files: Files) -> Iterator[Task]:
    """One task a row with ``key``, ``prompt``, ``instruction_id_list`` and ``kwargs``, of which
    the last two are lists of one length. Arguments that are null are left out: some copies of the
    data fill in every name that any instruction has."""
    for row in files.rows():
        kinds = row.texts("instruction_id_list")
        arguments = [dict(member.data) for member in row.objects("kwargs")]
        if not kinds or len(kinds) != len(arguments):
            row.bad("kwargs", f"{len(arguments)} for {len(kinds)} instructions")
        prompt = row.text("prompt")
        given = [{k: v for k, v in one.items() if v is not None} for one in arguments]
        yield Task(
            key=row.name("key"),
            inputs={"question": prompt},
            target={"prompt": prompt, "instruction_id_list": kinds, "kwargs": given},
            attributes={
                "instructions": str(len(kinds)),
                "first_kind": kinds[0].split(":")[0],
            },
        )


IFEVAL = Benchmark(
    name="ifeval",
    read=read,
    splits={"train": ("ifeval_input_data.jsonl", "input_data.jsonl", "*.jsonl")},
    scorer="ifeval",
    reports=SHARE_RIGHT,  # prompt-level accuracy; the score is the share of instructions
    prompt="plain",
    hub=Hub("google/IFEval", "966cd89545d6b6acfd7638bc708b98261ca58e84"),
    gold=no_gold,
    licence="Apache-2.0; Zhou et al. 2023, arXiv 2311.07911",
)

IFBENCH = Benchmark(
    name="ifbench",
    read=read,
    splits={"test": ("IFBench_test.jsonl", "data/IFBench_test.jsonl", "*.jsonl", "**/*.parquet")},
    scorer="ifbench",
    reports=SHARE_RIGHT,  # prompt-level loose accuracy, the paper's headline
    prompt="plain",
    hub=Hub("allenai/IFBench_test", "2e8a48de45ff3bf41242f927254ca81b59ca3ae2"),
    gold=no_gold,
    licence="ODC-BY; Pyatkin et al. 2025, arXiv 2507.02833",
)
