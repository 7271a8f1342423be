"""Several trials of each task at temperature 0: they answer alike, and pass@k says nothing."""

from tutti.tasks.sweeps.plan.plan import Plan


def greedy_line(plan: Plan) -> str:
    """What to say of such a sweep before it runs; empty for one trial, or where answers vary.

    A harness of the user's own has its own sampling, and is not judged.
    """
    suite = plan.suite
    trials = suite.samples_of_each
    if trials < 2 or suite.harness.command is not None or suite.sampling.temperature > 0:
        return ""
    return (
        f"{trials} trials of each task at temperature 0: a model that decodes greedily repeats its "
        "answer, so pass@k and majority@k show little; set `sampling.temperature`, such as 0.7"
    )
