"""Gate: tools do what they are said to do.

Of every tool offered: its parameters are its function's; each name with an underscore and each name
between backticks in its texts exists (a tool, parameter, table, field, rule or choice); and it does
not say another kind of verb than it is. A WRITE whose text begins with a verb of `LOOKS` and has
none of `CHANGES` is said to look only; a READ or GENERIC whose text begins with one of `ALTERS` is
said to change something.

Of the golden calls: READ and GENERIC change nothing; WRITE changes something and only what it
declares; a result has the keys that are declared.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from tutti.tasks.synthesis.domains import Domain, DomainTask, Result, ToolSpec
from tutti.tasks.synthesis.gating.example import EXAMPLE, EXTENDED, LOOKED_UP, TOOLKIT, varied
from tutti.tasks.synthesis.gating.gate import Examples, GateContext
from tutti.tasks.task_sets import Verdict, verdict

LOOKS = frozenset(
    "look looks find finds get gets list lists show shows search searches read reads "
    "fetch fetches view views retrieve retrieves display displays count counts inspect "
    "inspects browse browses query queries".split()
)
"""What only a READ does."""
ALTERS = frozenset(
    "cancel cancels delete deletes erase erases update updates modify modifies overwrite "
    "overwrites refund refunds insert inserts rename renames book books reserve reserves".split()
)
"""What only a WRITE does. Others may mean a result, as GENERIC `add` of two numbers does."""
CHANGES = ALTERS | frozenset(
    "add adds remove removes set sets change changes move moves transfer transfers pay "
    "pays send sends extend extends renew renews give gives create creates open opens "
    "close closes exchange exchanges replace replaces return returns assign assigns mark "
    "marks record records store stores register registers submit submits approve approves "
    "reject rejects freeze freezes block blocks lock locks place places order orders edit "
    "edits put puts start starts finish finishes complete completes advance advances lend "
    "lends apply applies make makes write writes save saves increase increases decrease "
    "decreases raise raises lower lowers".split()
)
"""What a WRITE may say beside what it looks at."""
LEADING = frozenset("this the a an tool function it will can to".split())
"""Before the first verb."""
WORD = re.compile(r"[a-z]+")
IDENTIFIER = re.compile(r"`([A-Za-z_]\w*)`|\b([a-z][a-z0-9]*(?:_[a-z0-9]+)+)\b")


class Described:
    """Compares tools with their texts and with the replays of `executes`, which comes before."""

    name = "described"
    about = "Tools have the parameters, effects and results that their descriptions state."

    async def judge(self, tasks: Sequence[DomainTask], context: GateContext) -> list[Verdict]:
        """Tools are looked at once a domain, golden calls in each task. Raises LookupError for a
        task that was not replayed, ToolkitFailed."""
        if _tool_faults not in context.facts:
            context.facts[_tool_faults] = await _tool_faults(context)
        faults: Mapping[str, str] = context.facts[_tool_faults]
        return [verdict(_fault(task, context, faults)) for task in tasks]

    def examples(self) -> Examples:
        """A WRITE that says it looks, a READ that writes, a field that is not there, a parameter
        less, keys that no result has."""
        find, look, extend = EXAMPLE.tools
        lies = extend.model_copy(update={"about": "Look up how long a loan lasts."})
        field = look.model_copy(update={"about": "Look up a loan and its late_fee."})
        fewer = extend.model_copy(update={"parameters": extend.parameters[:1]})
        keys = look.model_copy(update={"returns": ("loan_id", "member")})
        other = extend.model_copy(update={"changes": ("loans.returned",)})
        writes = TOOLKIT.replace(
            "    return db[", '    db["loans"][loan_id]["days"] = 1\n    return db['
        )
        return Examples(
            good=((EXAMPLE, EXTENDED), (EXAMPLE, LOOKED_UP)),
            bad=(
                (varied(EXAMPLE, tools=(find, look, lies)), EXTENDED),
                (varied(EXAMPLE, tools=(find, field, extend)), LOOKED_UP),
                (varied(EXAMPLE, tools=(find, look, fewer)), LOOKED_UP),
                (varied(EXAMPLE, tools=(find, keys, extend)), LOOKED_UP),
                (varied(EXAMPLE, tools=(find, look, other)), EXTENDED),
                (varied(EXAMPLE, toolkit=writes), LOOKED_UP),
            ),
        )


async def _tool_faults(context: GateContext) -> dict[str, str]:
    """What is wrong with each tool itself; tools with nothing wrong are left out."""
    tools = context.domain.tools
    replies = await context.toolkit.request([["signature", tool.name] for tool in tools])
    known = _identifiers(context.domain)
    found = {}
    for tool, reply in zip(tools, replies, strict=True):
        faults = [_signature_fault(tool, reply), _stray_name(tool, known), _verb_fault(tool)]
        found[tool.name] = next(filter(None, faults), "")
    return {name: fault for name, fault in found.items() if fault}


def _signature_fault(tool: ToolSpec, reply: Mapping[str, object]) -> str:
    if reply["status"] != "ok":
        return str(reply["value"])
    taken = dict(reply["value"])  # type: ignore[call-overload]
    declared = {each.name: each.optional for each in tool.parameters}
    if taken.keys() != declared.keys():
        return f"it declares the parameters {sorted(declared)}, its function takes {sorted(taken)}"
    needed = next((n for n, optional in declared.items() if optional and not taken[n]), None)
    return "" if needed is None else f"{needed} is declared optional, its function needs it"


def _identifiers(domain: Domain) -> frozenset[str]:
    """All names that a tool's text may use."""
    names = {domain.name, *(tool.name for tool in domain.tools), *(r.id for r in domain.rules)}
    names |= {each.name for tool in domain.tools for each in tool.parameters}
    names |= {name for tool in domain.tools for name in tool.returns}
    for table in domain.tables:
        names |= {table.name, *(each.name for each in table.fields)}
        names |= {choice for each in table.fields for choice in each.one_of}
    return frozenset(names)


def _stray_name(tool: ToolSpec, known: frozenset[str]) -> str:
    texts = (tool.about, *(each.about for each in tool.parameters))
    found = (one or other for text in texts for one, other in IDENTIFIER.findall(text))
    # Digits: an example of a value, as in `order_17`.
    stray = (n for n in found if n not in known and not any(c.isdigit() for c in n))
    name = next(stray, None)
    return "" if name is None else f"its description names {name!r}, which is nothing here"


def _verb_fault(tool: ToolSpec) -> str:
    words = WORD.findall(tool.about.lower())
    first = next((word for word in words if word not in LEADING), "")
    if tool.kind == "WRITE" and first in LOOKS and not CHANGES & set(words[1:]):
        return f"it changes {', '.join(tool.changes)} and says that it would {first!r}"
    if tool.kind != "WRITE" and first in ALTERS:
        return f"it is {tool.kind} and says that it would {first!r}"
    return ""


def _fault(task: DomainTask, context: GateContext, faults: Mapping[str, str]) -> str:
    if faults:
        for tool in context.domain.offered(task):
            if tool.name in faults:
                return f"{tool.name}: {faults[tool.name]}"
    replay = context.replays.get(task.task_id)
    if replay is None:
        raise LookupError(f"{task.task_id} was not replayed: ask the gate `executes` first")
    named = context.domain.tool_named
    for number, (action, result) in enumerate(
        zip(task.world.actions, replay.results, strict=True), 1
    ):
        spec = named.get(action.name)
        fault = next(_call_faults(spec, result), "") if spec is not None else ""
        if fault:
            return f"call {number}, {action.name}: {fault}"
    return ""


def _call_faults(tool: ToolSpec, result: Result) -> Iterator[str]:
    if result.status != "ok":
        return  # for `executes` to say
    if tool.kind != "WRITE" and result.changes:
        yield f"it is {tool.kind} and changed {', '.join(result.changes)}"
    elif tool.kind == "WRITE" and not result.changes:
        yield "it is a WRITE and changed nothing"
    undeclared = sorted(set(result.changes) - set(tool.changes))
    if undeclared:
        yield f"it changed {', '.join(undeclared)}, which it does not declare"
    if not tool.returns or result.value is None:
        return
    objects = result.value if isinstance(result.value, list) else [result.value]
    for each in objects:
        if not isinstance(each, dict):
            yield f"it declares keys and returned {str(each)[:40]!r}"
        elif each.keys() != set(tool.returns):
            differing = sorted(each.keys() ^ set(tool.returns))
            yield f"declared and returned keys differ in {', '.join(differing)}"
