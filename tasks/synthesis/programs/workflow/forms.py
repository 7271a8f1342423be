"""One workflow as text, as pseudo-code and as Mermaid; and each form read back.

A form holds all that is needed to follow the workflow: what is done at a step and where each value
leads. `parse` is the inverse of `render`.
"""

import re
from collections.abc import Callable

from tutti.tasks.synthesis.programs.workflow.flow import Edge, Flow, Step, StepKind

FORMS = ("text", "code", "mermaid")
DOES: dict[str, str] = {
    "ask": "Ask the user about {field} and write the answer down with `{tool}`.",
    "check": "Check {field} with `{tool}`.",
    "act": "Call `{tool}`.",
    "end": "End: tell the user the number of the last slip.",
}


def render(flow: Flow, form: str) -> str:
    """A flow in one of `FORMS`."""
    step_of, edge_of, head = _WRITERS[form]
    lines = [head] if head else []
    for step in flow.steps:
        lines.append(step_of(step))
        lines += [edge_of(edge, step.finds) for edge in flow.edges if edge.source == step.step_id]
    return "\n".join(lines)


def parse(text: str, form: str) -> Flow:
    """The flow that a form shows. Raises ValueError for a line that belongs to none."""
    step_line, edge_line = _READERS[form]
    steps: list[Step] = []
    edges: list[Edge] = []
    for line in text.splitlines():
        if line == _WRITERS[form][2]:
            continue
        if found := edge_line.fullmatch(line):
            source = found.groupdict().get("source") or steps[-1].step_id
            edges.append(_edge(source, found["target"], found["when"] or ""))
        elif found := step_line.fullmatch(line):
            kind = _kind(found["kind"])
            steps.append(Step(found["id"], kind, found["tool"] or "", found["field"] or ""))
        else:
            raise ValueError(f"no line of a workflow as {form}: {line!r}")
    return Flow(tuple(steps), tuple(edges))


def _edge(source: str, target: str, when: str) -> Edge:
    if " is at least " in when or " is at most " in when or " is between " in when:
        numbers = [int(each) for each in re.findall(r"\d+", when.partition(" is ")[2])]
        if " is between " in when:
            return Edge(source, target, (), numbers[0], numbers[1])
        low = " is at least " in when
        bound = numbers[0]
        return Edge(source, target, (), bound if low else None, None if low else bound)
    values = when.partition(" is ")[2]
    return Edge(source, target, tuple(values.split(" or ")) if values else ())


def _condition(edge: Edge, field: str) -> str:
    """``field is a or b``, ``field is at most 3``; empty for an edge that is always taken."""
    if edge.values:
        return f"{field} is {' or '.join(edge.values)}"
    if edge.least is not None and edge.most is not None:
        return f"{field} is between {edge.least} and {edge.most}"
    if edge.least is not None:
        return f"{field} is at least {edge.least}"
    return f"{field} is at most {edge.most}" if edge.most is not None else ""


def _kind(word: str) -> StepKind:
    kinds: dict[str, StepKind] = {"Ask": "ask", "Check": "check", "Call": "act", "End": "end"}
    kinds |= {"ask": "ask", "check": "check", "act": "act", "end": "end"}
    return kinds[word]


def _text_step(step: Step) -> str:
    return f"{step.step_id}. {DOES[step.kind].format(field=step.finds, tool=step.tool)}"


def _text_edge(edge: Edge, field: str) -> str:
    when = _condition(edge, field)
    return f"   - If {when}, go to {edge.target}." if when else f"   - Go to {edge.target}."


def _code_step(step: Step) -> str:
    call = f" {step.tool}" if step.tool else ""
    return f"{step.step_id}: {step.kind}{call}{' -> ' + step.finds if step.finds else ''}"


def _code_edge(edge: Edge, field: str) -> str:
    when = _condition(edge, field)
    return f"    if {when}: goto {edge.target}" if when else f"    goto {edge.target}"


def _mermaid_step(step: Step) -> str:
    words = " ".join(filter(None, (step.kind, step.tool, step.finds)))
    return f'    {step.step_id}["{words}"]'


def _mermaid_edge(edge: Edge, field: str) -> str:
    when = _condition(edge, field)
    return f"    {edge.source} -->{f'|{when}|' if when else ''} {edge.target}"


_WRITERS: dict[str, tuple[Callable[[Step], str], Callable[[Edge, str], str], str]] = {
    "text": (_text_step, _text_edge, ""),
    "code": (_code_step, _code_edge, ""),
    "mermaid": (_mermaid_step, _mermaid_edge, "flowchart TD"),
}
_READERS = {
    "text": (
        re.compile(
            r"(?P<id>S\d+)\. (?P<kind>Ask|Check|Call|End)"
            r"(?:(?: the user about)? (?P<field>\w+) (?:and write the answer down )?with)?"
            r"(?: `(?P<tool>\w+)`)?(?:: tell the user the number of the last slip)?\."
        ),
        re.compile(r"   - (?:If (?P<when>.+), go|Go) to (?P<target>S\d+)\."),
    ),
    "code": (
        re.compile(r"(?P<id>S\d+): (?P<kind>\w+)(?: (?P<tool>\w+))?(?: -> (?P<field>\w+))?"),
        re.compile(r"    (?:if (?P<when>.+): )?goto (?P<target>S\d+)"),
    ),
    "mermaid": (
        re.compile(r'    (?P<id>S\d+)\["(?P<kind>\w+)(?: (?P<tool>\w+))?(?: (?P<field>\w+))?"\]'),
        re.compile(r"    (?P<source>S\d+) -->(?:\|(?P<when>.+)\|)? (?P<target>S\d+)"),
    ),
}
