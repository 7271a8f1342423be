"""A training in sentences: what it came to, and what is not known of it."""

from collections.abc import Sequence
from statistics import median

from tutti.tasks.reporting.text.numbers import number, p_value, rate, share, span
from tutti.tasks.reporting.training.record import Training

ENDS = 5
"""Steps at each end whose mean reward is told: a single step's is mostly noise."""
FAR = 0.01
"""Nats of mean KL between trainer and engine beyond which other weights have sampled."""


def findings(training: Training) -> list[str]:
    """What the training came to."""
    return [*_held_out(training), *_loss(training), *_ends(training), *_cost(training)]


def gaps(training: Training) -> list[str]:
    """What is missing or limits what can be said."""
    found = []
    if not training.held_out and not training.values("held_out_loss"):
        found.append(
            "No held-out tasks were measured within this training: measure the checkpoint beside "
            "its base with a sweep and `tutti compare`."
        )
    if training.card.get("paired") is not None:
        found.append("One training with one seed: the interval is over tasks, not over trainings.")
    if training.values("held_out_loss"):
        found.append("The held-out loss has no interval: it is one number a measurement.")
    if not training.values("entropy"):
        found.append("No entropy was recorded.")
    if not training.values("mfu"):
        found.append("No model FLOPs utilisation: the device's peak is not known.")
    missing = len(training.steps) - len(training.values("loss"))
    if missing:
        found.append(f"{missing} of {len(training.steps)} steps had nothing to train on.")
    return found


def alarms(training: Training) -> list[str]:
    """What puts the whole training in doubt."""
    first = training.values("mismatch_kl")[:1]
    if first and first[0][1] > FAR:
        return [
            f"In step {first[0][0]} the trainer's log probabilities are {first[0][1]:.3g} nats of "
            "KL from the recorded ones: other weights have sampled these attempts."
        ]
    return []


def _held_out(training: Training) -> list[str]:
    if not training.held_out:
        return []
    said = [
        f"{share(score['accuracy'])} [{span(share, *score['wilson_95'])}] after {after} steps "
        f"(n = {score['n']})"
        for after, score in (training.held_out[0], training.held_out[-1])[: len(training.held_out)]
    ]
    sentences = [f"Held-out tasks: {', '.join(said)}."]
    if (paired := training.card.get("paired")) is not None and paired["ci_low"] is not None:
        points, low, high = (100 * paired[name] for name in ("difference", "ci_low", "ci_high"))
        sentences.append(
            f"Paired by task, {paired['n']} tasks: {points:+.1f} points, 95 % interval "
            f"{low:+.1f} to {high:+.1f}, p {_p(paired['p'])}: {paired['verdict']}."
        )
    return sentences


def _p(value: float | None) -> str:
    text = p_value(value)
    return text if text.startswith("<") else f"= {text}"


def _loss(training: Training) -> list[str]:
    held_out = training.values("held_out_loss")
    if len(held_out) < 2:
        return []
    (first, before), (last, after) = held_out[0], held_out[-1]
    step, best = min(held_out, key=lambda pair: pair[1])
    return [
        f"Loss on held-out tasks: {before:.3f} after step {first}, {after:.3f} after step {last}, "
        f"lowest {best:.3f} after step {step}; nats a token, each one measurement."
    ]


def _ends(training: Training) -> list[str]:
    rewards = [value for _, value in training.values("reward")]
    if len(rewards) < 2 * ENDS:
        return []
    first, last = (_mean(part) for part in (rewards[:ENDS], rewards[-ENDS:]))
    dead = _mean([value for _, value in training.values("dead_group_share")] or [0.0])
    return [
        f"Mean reward: {first:.3f} in the first {ENDS} steps, {last:.3f} in the last {ENDS}. "
        f"{share(dead)} of the groups were dead."
    ]


def _cost(training: Training) -> list[str]:
    speeds = [value for _, value in training.values("tokens_per_s")]
    seconds = sum(value for _, value in training.values("seconds"))
    if not speeds:
        return []
    words = f"{len(training.steps)} steps, {seconds:,.0f} s in them, median "
    words += f"{rate(median(speeds))} tokens/s"
    if memory := [value for _, value in training.values("peak_mb")]:
        words += f", at most {number(max(memory), 0)} MB of memory"
    if shares := [value for _, value in training.values("mfu")]:
        words += f", MFU {share(median(shares))}"
    return [words + "."]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
