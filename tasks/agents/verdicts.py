"""Verdicts of a model that checks an answer: one form in the prompt, and strict parsing.

A verdict is the last nonempty line, ``Verdict: LABEL``. A quoted last line may be a citation from
the material, which the attempt wrote: it does not count if the material contains a verdict, or if
the model gave another one in its own words.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence

_VERDICT = re.compile(r"verdict:\s*(?P<label>[A-Za-z_]+|-?[0-9]+)\.?", re.IGNORECASE)
_NAMED = re.compile(r"\bverdict\W{0,9}:", re.IGNORECASE)
# but not the underscore in not_attempted
_EMPHASIS = re.compile(r"[*`]+|(?<![^\W_])_+|_+(?![^\W_])")
_QUOTES = re.compile("[\"'\u201c\u201d\u2018\u2019\u00ab\u00bb]+|^>[> ]*")
_FENCE = re.compile(r"(?:```|~~~)\S*")


def read_verdict(text: str, labels: Sequence[str], material: str = "") -> str | None:
    """The label in the last line, as spelled in `labels`; None if there is none. `material`: the
    judged text, whose verdicts are not the judge's."""
    known = {label.lower(): label for label in labels}
    lines = _lines(text)
    last = known.get(_label(lines[-1][0]) or "") if lines else None
    if last is None or not lines[-1][1]:
        return last
    own = {known.get(_label(line) or "") for line, quoted in lines if not quoted}
    cited = _NAMED.search(material) is not None
    return None if cited or own - {last, None} else last


def _lines(text: str) -> list[tuple[str, bool]]:
    """Lines of `text` with more than marks, without these, and whether each is quoted."""
    found, fenced_in = [], False
    for line in text.splitlines():
        bare = _EMPHASIS.sub("", line.replace("\\_", "_")).strip(" #\t")
        if _FENCE.fullmatch(line.strip()):
            fenced_in = not fenced_in
        elif plain := _QUOTES.sub("", bare).strip(" #"):
            found.append((plain, fenced_in or plain != bare))
    return found


def _label(line: str) -> str | None:
    match = _VERDICT.fullmatch(line)
    return match["label"].lower() if match else None


def fenced(parts: Mapping[str, str]) -> str:
    """Return texts for a judge's prompt, each between marks that occur in none of them. The marks
    depend on the texts, so that an answer cannot close its own part and continue as the prompt."""
    digest = hashlib.sha256("\0".join(parts.values()).encode("utf-8", "replace")).hexdigest()[:12]
    return "\n".join(
        f"<{name}-{digest}>\n{text}\n</{name}-{digest}>" for name, text in parts.items()
    )


def verdict_line(labels: Sequence[str]) -> str:
    """Return the sentence that requests a verdict."""
    options = " or ".join(f"`Verdict: {label}`" for label in labels)
    return f"Give your reasons in short, then end with a line that is exactly {options}."
