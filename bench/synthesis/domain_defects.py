"""Planters of defects in tools, their code and the golden calls; see `planting`."""

from random import Random

from bench.synthesis.planting import (
    Planted,
    calls_of,
    fields_of,
    told,
    varied,
    with_action,
    with_tool,
    wrapped,
)
from tutti.tasks.synthesis.domains import (
    Action,
    Domain,
    DomainTask,
    Parameter,
    ToolSpec,
    changed_task,
)


def says_it_looks(rng: Random, domain: Domain, task: DomainTask) -> Planted | None:
    """A WRITE whose description says that it looks something up."""
    calls = calls_of(domain, task, "WRITE")
    if not calls:
        return None
    tool = rng.choice(calls)[2]
    about = rng.choice(("Look up the details.", "Show what is there.", "Get the current values."))
    return with_tool(domain, tool.name, about=about), task


def says_it_changes(rng: Random, domain: Domain, task: DomainTask) -> Planted | None:
    """A READ whose description says that it changes something."""
    calls = calls_of(domain, task, "READ", "GENERIC")
    if not calls:
        return None
    tool = rng.choice(calls)[2]
    verb = rng.choice(("Cancel", "Delete", "Update", "Modify"))
    return with_tool(domain, tool.name, about=f"{verb} what is named."), task


def names_a_stray_field(rng: Random, domain: Domain, task: DomainTask) -> Planted | None:
    """A description with a field that is not there."""
    tool = rng.choice(domain.offered(task))
    about = f"{tool.about} It respects planted_field."
    return with_tool(domain, tool.name, about=about), task


def other_parameters(rng: Random, domain: Domain, task: DomainTask) -> Planted | None:
    """A declared parameter that the function does not take."""
    tool = rng.choice(domain.offered(task))
    more = Parameter(name="planted", kind="text", about="what else to know", optional=True)
    return with_tool(domain, tool.name, parameters=(*tool.parameters, more)), task


def hides_changes(rng: Random, domain: Domain, task: DomainTask) -> Planted | None:
    """A WRITE that declares no changes."""
    calls = calls_of(domain, task, "WRITE")
    return (with_tool(domain, rng.choice(calls)[2].name, changes=()), task) if calls else None


def hides_a_key(rng: Random, domain: Domain, task: DomainTask) -> Planted | None:
    """A result with a key that is not declared."""
    calls = [c for c in calls_of(domain, task, "READ", "WRITE") if len(c[2].returns) > 1]
    if not calls:
        return None
    tool = rng.choice(calls)[2]
    gone = rng.choice(tool.returns)
    return with_tool(domain, tool.name, returns=tuple(k for k in tool.returns if k != gone)), task


def looks_and_writes(rng: Random, domain: Domain, task: DomainTask) -> Planted | None:
    """A READ whose code changes a record."""
    calls = calls_of(domain, task, "READ")
    integers = [(t, f) for t, f in fields_of(domain) if f.kind == "integer" and f.name != t.key]
    if not calls or not integers:
        return None
    table, field = rng.choice(integers)
    key = rng.choice(sorted(domain.records[table.name]))
    lines = [f"db[{table.name!r}][{key!r}][{field.name!r}] = {rng.randrange(100, 999)}"]
    return wrapped(domain, rng.choice(calls)[2], lines), task


def failing_code(rng: Random, domain: Domain, task: DomainTask) -> Planted | None:
    """A tool whose code is wrong."""
    calls = calls_of(domain, task, "READ", "WRITE", "GENERIC")
    if not calls:
        return None
    return wrapped(domain, rng.choice(calls)[2], ["db['planted']['none']"]), task


def refused_call(rng: Random, domain: Domain, task: DomainTask) -> Planted | None:
    """A golden call about a record that is not there."""
    keys = {key for keyed in domain.records.values() for key in keyed}
    for place, action, _ in calls_of(domain, task, "READ", "WRITE"):
        named = [n for n, v in action.arguments.items() if isinstance(v, str) and v in keys]
        if named:
            return domain, with_action(task, place, **{rng.choice(named): "planted-0"})
    return None


def unsteady(rng: Random, domain: Domain, task: DomainTask) -> Planted | None:
    """A tool whose effect is drawn by chance: a text that neither the tool itself writes over nor
    other code needs to find its way by."""
    calls = calls_of(domain, task, "WRITE")
    if not calls:
        return None
    tool = rng.choice(calls)[2]
    texts = [
        (table, field)
        for table, field in fields_of(domain)
        if field.kind == "text" and field.name != table.key
        if not field.refers_to and not field.one_of
        if f"{table.name}.{field.name}" not in tool.changes
    ]
    if not texts:
        return None
    table, field = rng.choice(texts)
    key = rng.choice(sorted(domain.records[table.name]))
    drawn = f"db[{table.name!r}][{key!r}][{field.name!r}] = str(random.random())"
    return wrapped(domain, tool, ["import random", drawn]), task


def wrong_number(rng: Random, domain: Domain, task: DomainTask) -> Planted | None:
    """Another number in a golden WRITE than the user asks for."""
    for place, action, _ in calls_of(domain, task, "WRITE"):
        for name, value in action.arguments.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                return domain, with_action(task, place, **{name: value + rng.randint(1, 3)})
    return None


def wrong_record(rng: Random, domain: Domain, task: DomainTask) -> Planted | None:
    """A golden WRITE about another record than the user's."""
    found = [
        (place, name, sorted(keyed.keys() - {value}))
        for place, action, _ in calls_of(domain, task, "WRITE")
        for name, value in action.arguments.items()
        for keyed in domain.records.values()
        if isinstance(value, str) and value in keyed and len(keyed) > 1
    ]
    if not found:
        return None
    place, name, others = rng.choice(found)
    return domain, with_action(task, place, **{name: rng.choice(others)})


def nothing_to_do(rng: Random, domain: Domain, task: DomainTask) -> Planted | None:
    """A task that is done before it begins: nothing to change, nothing to say."""
    reads = tuple(action for _, action, _ in calls_of(domain, task, "READ"))
    return (domain, changed_task(task, actions=reads, communicate=())) if reads else None


def allowed_is_forbidden(rng: Random, domain: Domain, task: DomainTask) -> Planted | None:
    """The first golden call that writes, among those that the policy is said to forbid. A later
    one may be forbidden in truth as long as the first is not made, as in a workflow."""
    calls = calls_of(domain, task, "WRITE")
    if not calls:
        return None
    return domain, changed_task(task, forbidden=(calls[0][1],))


def forbidden_is_golden(rng: Random, domain: Domain, task: DomainTask) -> Planted | None:
    """A golden call that the policy forbids, and that the user asks for: nothing else is wrong."""
    said = [fact.lower() for fact in task.world.communicate]
    calls = [
        a for a in task.world.forbidden if not any(f in str(a.arguments).lower() for f in said)
    ]
    if not calls:
        return None
    action = rng.choice(calls)
    given = ", ".join(f"{name} {value}" for name, value in action.arguments.items())
    asked = f"{task.world.scenario.instructions} You also ask for: {action.name}, {given}.".strip()
    actions = (*task.world.actions, action)
    return domain, told(changed_task(task, actions=actions), instructions=asked)


SWITCH = '''

def planted_switch(db, on):
    """Raise a number, or lower it again."""
    record = db[{table!r}][{key!r}]
    record[{field!r}] += 1 if on else -1
    return record[{field!r}]
'''


def changed_back(rng: Random, domain: Domain, task: DomainTask) -> Planted | None:
    """Two more golden calls, the second of which undoes what the first changed."""
    places = [
        (table.name, key, field.name)
        for table, field in fields_of(domain)
        if field.kind == "integer" and field.name != table.key
        for key, record in domain.records[table.name].items()
        if record[field.name] is not None
    ]
    if not places or not task.world.actions:
        return None
    table, key, field = rng.choice(places)
    tool = ToolSpec(
        name="planted_switch",
        kind="WRITE",
        about="Change a number.",
        parameters=(Parameter(name="on", kind="boolean", about="whether it is raised"),),
        changes=(f"{table}.{field}",),
    )
    code = domain.toolkit + SWITCH.format(table=table, key=key, field=field)
    calls = [Action(name=tool.name, arguments={"on": on}) for on in (True, False)]
    offered = (*task.world.tools, tool.name) if task.world.tools else ()
    planted = {"actions": (*task.world.actions, *calls), "tools": offered}
    made = varied(domain, toolkit=code, tools=(*domain.tools, tool))
    return made, changed_task(task, **planted)
