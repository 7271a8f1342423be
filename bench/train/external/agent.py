"""An agent that knows nothing of tutti: the openai package, and one tool of its own.

Started once for each task, with OPENAI_BASE_URL, OPENAI_API_KEY, TUTTI_TASK and TUTTI_MODEL. Its
tool looks a name up in the file that CORPUS names.
"""

import json
import os
import sys
from pathlib import Path

from openai import OpenAI

TURNS = 4
SYSTEM = "Answer with the tools. Put the final answer in \\boxed{}."


def tool(name: str, description: str, argument: str, meaning: str) -> dict[str, object]:
    """A tool that takes one text."""
    properties = {argument: {"type": "string", "description": meaning}}
    parameters = {"type": "object", "properties": properties, "required": [argument]}
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


TOOLS = [
    tool("search", "Search the documentation.", "query", "a name or a few words"),
    tool("python", "Run a Python program; what it prints comes back.", "code", "the program"),
]


def main() -> None:
    """Answer one task."""
    corpus = json.loads(Path(sys.argv[1]).read_text())
    task = json.loads(Path(os.environ["TUTTI_TASK"]).read_text())
    client, messages = OpenAI(), [{"role": "system", "content": SYSTEM}, *task["messages"]]
    said = None
    for _ in range(TURNS):
        reply = client.chat.completions.create(
            model=os.environ["TUTTI_MODEL"],
            messages=messages,
            tools=TOOLS,  # type: ignore[arg-type]
            temperature=task["temperature"],
            max_tokens=task["max_tokens"],
        )
        said = reply.choices[0].message
        if not said.tool_calls:
            break
        messages.append(said.model_dump(exclude_none=True))
        for call in said.tool_calls:
            found = _search(corpus, call.function.arguments)  # type: ignore[union-attr]
            messages.append({"role": "tool", "tool_call_id": call.id, "content": found})
    answer = (said.content or "") if said is not None else ""
    print(json.dumps({"answer": answer.removeprefix("\\boxed{").removesuffix("}")}))


def _search(corpus: dict[str, str], arguments: str) -> str:
    try:
        query = str(json.loads(arguments)["query"])
    except (ValueError, KeyError, TypeError):
        return "no query"
    return corpus.get(query, "nothing found")


if __name__ == "__main__":
    main()
