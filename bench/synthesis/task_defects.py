"""Planters of defects in tasks; see `planting`."""

import re
from random import Random
from typing import Any

from bench.synthesis.planting import (
    Planted,
    calls_of,
    fields_of,
    told,
    varied,
    with_action,
    with_tool,
    with_value,
)
from tutti.tasks.synthesis.domains import Action, Domain, DomainTask, changed_task

BENCHMARK_TEXTS = (
    "Natalia sold clips to 48 of her friends in April, and then she sold half as many clips in "
    "May. How many clips did Natalia sell altogether in April and May?",
    "Which magazine was started first, the one about gardens in the north or the one for women "
    "who sail alone across the ocean?",
    "A robe takes 2 bolts of blue fiber and half that much white fiber. How many bolts in total "
    "does it take?",
    "Write a function that returns the longest palindrome within a string of lower-case letters.",
)
"""Given to the gates as `benchmarks` while defects are counted."""
WRONG: dict[str, Any] = {
    "text": 17,
    "integer": "17",
    "number": "much",
    "boolean": "yes",
    "date": "soon",
    "texts": "all",
}
"""No value of that kind."""
FIELDS = ("reason", "known", "unknown", "instructions")
SYNONYMS = {
    "you": "I",
    "your": "my",
    "need": "require",
    "want": "would like",
    "ask": "find out",
    "which": "what",
    "have": "own",
    "more": "extra",
    "order": "purchase",
    "know": "remember",
}


def unknown_tool(rng: Random, domain: Domain, task: DomainTask) -> Planted | None:
    """A golden call of a tool that is not there."""
    if not task.world.actions:
        return None
    place = rng.randrange(len(task.world.actions))
    actions = list(task.world.actions)
    actions[place] = actions[place].model_copy(update={"name": f"{actions[place].name}_v2"})
    return domain, changed_task(task, actions=tuple(actions))


def wrong_type(rng: Random, domain: Domain, task: DomainTask) -> Planted | None:
    """An argument of another type than declared."""
    calls = [
        call for call in calls_of(domain, task, "READ", "WRITE", "GENERIC") if call[1].arguments
    ]
    if not calls:
        return None
    place, action, tool = rng.choice(calls)
    kinds = {each.name: each.kind for each in tool.parameters}
    name = rng.choice(sorted(action.arguments))
    return domain, with_action(task, place, **{name: WRONG[kinds[name]]})


def missing_argument(rng: Random, domain: Domain, task: DomainTask) -> Planted | None:
    """A golden call without a required argument."""
    for place, action, tool in calls_of(domain, task, "READ", "WRITE", "GENERIC"):
        required = [each.name for each in tool.parameters if not each.optional]
        if required:
            gone = rng.choice(required)
            left = {name: value for name, value in action.arguments.items() if name != gone}
            actions = list(task.world.actions)
            actions[place] = Action(name=action.name, arguments=left)
            return domain, changed_task(task, actions=tuple(actions))
    return None


def unfilled_slot(rng: Random, domain: Domain, task: DomainTask) -> Planted | None:
    """A template's slot left in what the user is told."""
    slot = rng.choice(("{name}", "{order_id}", "TODO", "None"))
    return domain, told(task, known=f"{task.world.scenario.known} The number is {slot}.".strip())


def nothing_asked(rng: Random, domain: Domain, task: DomainTask) -> Planted | None:
    """No golden call and nothing to say."""
    return domain, changed_task(task, actions=(), communicate=())


def unknown_record(rng: Random, domain: Domain, task: DomainTask) -> Planted | None:
    """A task about a record that is not there."""
    table = rng.choice(sorted(domain.records) or ["none"])
    entities = (*task.sources, f"{table}/planted-{rng.randrange(1000)}")
    return domain, changed_task(task, sources=entities)


def not_offered(rng: Random, domain: Domain, task: DomainTask) -> Planted | None:
    """A tool that the golden calls need is not among those offered."""
    used = sorted({action.name for action in task.world.actions})
    offered = [tool.name for tool in domain.offered(task)]
    if not used or len(offered) < 2:
        return None
    gone = rng.choice(used)
    return domain, changed_task(task, tools=tuple(n for n in offered if n != gone))


def dangling_key(rng: Random, domain: Domain, task: DomainTask) -> Planted | None:
    """A foreign key to a record that is not there."""
    keys = [(table, field) for table, field in fields_of(domain) if field.refers_to]
    if not keys:
        return None
    table, field = rng.choice(keys)
    stray = f"planted-{rng.randrange(1000)}"
    changed = {field.name: [stray] if field.kind == "texts" else stray}
    return with_value(rng, domain, task, table, changed)


def wrong_kind(rng: Random, domain: Domain, task: DomainTask) -> Planted | None:
    """A record's value of another kind than its field's."""
    table, field = rng.choice(list(fields_of(domain)))
    return with_value(rng, domain, task, table, {field.name: WRONG[field.kind]})


def out_of_bounds(rng: Random, domain: Domain, task: DomainTask) -> Planted | None:
    """A number over a field's greatest, or a text that is none of its choices."""
    bounded = [pair for pair in fields_of(domain) if pair[1].most is not None or pair[1].one_of]
    if not bounded:
        return None
    table, field = rng.choice(bounded)
    value: Any = "planted" if field.one_of else int(field.most or 0) + 1 + rng.randrange(9)
    if field.kind == "number":
        value = float(value)
    return with_value(
        rng, domain, task, table, {field.name: [value] if field.kind == "texts" else value}
    )


def undeclared_field(rng: Random, domain: Domain, task: DomainTask) -> Planted | None:
    """A record with a field that its table has not."""
    table, _ = rng.choice(list(fields_of(domain)))
    return with_value(rng, domain, task, table, {"planted_field": rng.randrange(9)})


def leaked_in_tool(rng: Random, domain: Domain, task: DomainTask) -> Planted | None:
    """An answer in a tool's description."""
    tool = rng.choice(domain.offered(task))
    shown = _shown(rng, task)
    return shown and (with_tool(domain, tool.name, about=f"{tool.about} {shown}"), task)


def leaked_in_parameter(rng: Random, domain: Domain, task: DomainTask) -> Planted | None:
    """An answer in a parameter's description."""
    tools = [tool for tool in domain.offered(task) if tool.parameters]
    shown = _shown(rng, task)
    if not tools or not shown:
        return None
    tool = rng.choice(tools)
    first = tool.parameters[0]
    first = first.model_copy(update={"about": f"{first.about}. {shown}"})
    return with_tool(domain, tool.name, parameters=(first, *tool.parameters[1:])), task


def leaked_in_policy(rng: Random, domain: Domain, task: DomainTask) -> Planted | None:
    """An answer in the policy."""
    shown = _shown(rng, task)
    if not shown or not domain.rules:
        return None
    first = domain.rules[0]
    first = first.model_copy(update={"text": f"{first.text} {shown}"})
    return varied(domain, rules=(first, *domain.rules[1:])), task


def leaked_by_user(rng: Random, domain: Domain, task: DomainTask) -> Planted | None:
    """An answer in what the user is told."""
    shown = _shown(rng, task)
    return shown and (domain, told(task, unknown=f"{task.world.scenario.unknown} {shown}".strip()))


def _shown(rng: Random, task: DomainTask) -> Any:
    """A sentence with an answer; None for a task without. Common ones are presented as answers, for
    a "21" alone is no leak."""
    if not task.world.communicate:
        return None
    fact = rng.choice(task.world.communicate)
    rare = len(fact) > 3 and fact[:1].isupper()
    return f"An example is {fact}." if rare else f"The answer is {fact}."


def pasted(rng: Random, domain: Domain, task: DomainTask) -> Planted | None:
    """A benchmark's question, whole."""
    return domain, told(task, reason=f"{task.world.scenario.reason} {rng.choice(BENCHMARK_TEXTS)}")


def pasted_part(rng: Random, domain: Domain, task: DomainTask) -> Planted | None:
    """Thirteen words of a benchmark's question."""
    words = rng.choice(BENCHMARK_TEXTS).split()
    first = rng.randrange(len(words) - 13) if len(words) > 13 else 0
    return domain, told(
        task, reason=f"{task.world.scenario.reason} {' '.join(words[first : first + 13])}"
    )


def pasted_reworded(rng: Random, domain: Domain, task: DomainTask) -> Planted | None:
    """A benchmark's question with a word in ten replaced, for the whole scenario."""
    words = rng.choice(BENCHMARK_TEXTS).split()
    for place in range(rng.randrange(4, 10), len(words), 10):
        words[place] = rng.choice(("such", "very", "quite"))
    empty = dict.fromkeys(FIELDS[1:], "")
    return domain, told(task, **{**empty, "reason": " ".join(words)})


def copied(rng: Random, domain: Domain, task: DomainTask) -> Planted | None:
    """The very same task."""
    return domain, task


def reworded(rng: Random, domain: Domain, task: DomainTask) -> Planted | None:
    """The same request in other words and another order."""
    sentences = re.split(r"(?<=[.!?])\s+", task.world.scenario.text.replace("\n", " "))
    rng.shuffle(sentences)
    words = " ".join(sentences).split(" ")
    changed = " ".join(SYNONYMS.get(word.lower(), word) for word in words)
    opening = rng.choice(("Hello, please help me.", "This is what it is about.", "Listen:"))
    empty = dict.fromkeys(FIELDS[1:], "")
    return domain, told(task, **{**empty, "reason": f"{opening} {changed}"})


def contradicting(rng: Random, domain: Domain, task: DomainTask) -> Planted | None:
    """The same words and another answer."""
    return domain, changed_task(task, communicate=(f"planted {rng.randrange(1000)}",))


def looked_twice(rng: Random, domain: Domain, task: DomainTask) -> Planted | None:
    """The same task with a golden call made twice and other words."""
    reads = calls_of(domain, task, "READ")
    if not reads:
        return None
    place, action, _ = reads[0]
    actions = (*task.world.actions[:place], action, *task.world.actions[place:])
    return reworded(rng, domain, changed_task(task, actions=actions))


def untold(rng: Random, domain: Domain, task: DomainTask) -> Planted | None:
    """A scenario without a value that the first golden call needs: the number of an account."""
    if not task.world.actions:
        return None
    static = domain.model_dump_json(include={"about", "rules", "tools"})
    values = [
        v for v in task.world.actions[0].arguments.values() if isinstance(v, str) and len(v) > 1
    ]
    values = [v for v in values if v in task.world.scenario.text and v not in static]
    if not values:
        return None
    gone = rng.choice(values)
    kept = {name: getattr(task.world.scenario, name).replace(gone, "it") for name in FIELDS}
    return domain, told(task, **kept)


def unseen(rng: Random, domain: Domain, task: DomainTask) -> Planted | None:
    """The golden calls without those that show the ids that the last one needs."""
    static = domain.model_dump_json(include={"about", "rules", "tools"}) + task.world.scenario.text
    if len(task.world.actions) < 2:
        return None
    needed = [
        v for v in task.world.actions[-1].arguments.values() if isinstance(v, str) and len(v) > 1
    ]
    hidden = any(value not in static for value in needed)
    return (domain, changed_task(task, actions=task.world.actions[-1:])) if hidden else None
