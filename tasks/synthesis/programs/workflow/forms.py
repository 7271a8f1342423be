"""A workflow as text, pseudo-code or Mermaid, and parsers of these forms.

A form has all that is needed to follow the workflow: the action of each step, and the step to which
each value leads. `parse` is the inverse of `render`.
"""

import re

from tutti.tasks.synthesis.programs.workflow.flow import Edge, Flow, Step, StepKind

FORMS = ("text", "code", "mermaid")
HEAD = "flowchart TD"
KINDS: dict[str, StepKind] = {
    "ask": "ask",
    "check": "check",
    "call": "act",
    "act": "act",
    "end": "end",
}
"""The kinds of steps by the words for them in the forms."""
EDGES = {
    "text": ("   - Go to {target}.", "   - If {when}, go to {target}."),
    "code": ("    goto {target}", "    if {when}: goto {target}"),
    "mermaid": ("    {source} --> {target}", "    {source} -->|{when}| {target}"),
}
"""An edge that is always taken, and one with a condition."""
DOES: dict[str, str] = {
    "ask": "Ask the user about {field} and write the answer down with `{tool}`.",
    "check": "Check {field} with `{tool}`.",
    "act": "Call `{tool}`.",
    "end": "End: tell the user the number of the last slip.",
}


def render(flow: Flow, form: str) -> str:
    """Return a flow in one of `FORMS`."""
    always, conditional = EDGES[form]
    lines = [HEAD] if form == "mermaid" else []
    for step in flow.steps:
        lines.append(_step_line(step, form))
        for edge in flow.edges:
            if edge.source == step.step_id:
                when = _condition(edge, step.finds)
                line = conditional if when else always
                lines.append(line.format(source=edge.source, target=edge.target, when=when))
    return "\n".join(lines)


def _step_line(step: Step, form: str) -> str:
    if form == "text":
        return f"{step.step_id}. {DOES[step.kind].format(field=step.finds, tool=step.tool)}"
    if form == "mermaid":
        return f'    {step.step_id}["{" ".join(filter(None, (step.kind, step.tool, step.finds)))}"]'
    tool, finds = step.tool and f" {step.tool}", step.finds and f" -> {step.finds}"
    return f"{step.step_id}: {step.kind}{tool}{finds}"


def parse(text: str, form: str) -> Flow:
    """Parse a flow from a text in a form. Raises ValueError for any other line."""
    step_line, edge_line = _READERS[form]
    steps: list[Step] = []
    edges: list[Edge] = []
    for line in text.splitlines():
        if line == HEAD and form == "mermaid":
            continue
        if found := edge_line.fullmatch(line):
            source = found.groupdict().get("source") or steps[-1].step_id
            edges.append(_edge(source, found["target"], found["when"] or ""))
        elif found := step_line.fullmatch(line):
            kind = KINDS[found["kind"].lower()]
            steps.append(Step(found["id"], kind, found["tool"] or "", found["field"] or ""))
        else:
            raise ValueError(f"no line of a workflow as {form}: {line!r}")
    return Flow(tuple(steps), tuple(edges))


def _edge(source: str, target: str, when: str) -> Edge:
    """Return the edge of a condition that `_condition` wrote."""
    values = when.partition(" is ")[2]
    numbers = [int(each) for each in re.findall(r"\d+", values)]
    if values.startswith("between "):
        return Edge(source, target, (), numbers[0], numbers[1])
    if values.startswith("at least "):
        return Edge(source, target, (), numbers[0])
    if values.startswith("at most "):
        return Edge(source, target, (), None, numbers[0])
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
