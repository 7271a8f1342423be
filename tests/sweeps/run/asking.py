"""A harness's program for the tests, which asks its model one question."""

_ASK = """\
import json, os, urllib.request
body = {"model": os.environ["TUTTI_MODEL"], "messages": [{"role": "user", "content": %r}]}
request = urllib.request.Request(
    os.environ["OPENAI_BASE_URL"] + "/chat/completions",
    data=json.dumps(body).encode(),
    headers={"Content-Type": "application/json"},
)
text = json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"]
print(%s)
"""


def asking(question: str, answer: str = "text") -> str:
    """Return the program's source; `answer` is the expression of the reply's `text` that it
    prints."""
    return _ASK % (question, answer)
