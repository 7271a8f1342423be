"""Tests of failures in the sweep of roles: counts, faults, and a bounded number of transcripts."""

import re
from dataclasses import replace
from html import escape
from pathlib import Path

import pytest
from duckdb import DuckDBPyConnection

from tests.reporting.role_rows import LONG
from tutti.tasks.reporting import build_report
from tutti.tasks.reporting.figures.html import PageReport, Section, Transcripts, write_page
from tutti.tasks.reporting.measures import failures as bounds
from tutti.tasks.reporting.measures.failures import (
    FIRST_MESSAGES,
    LAST_MESSAGES,
    MESSAGE_CHARACTERS,
    WRONG,
    Failure,
    Transcript,
    failures,
    faults,
    transcripts,
)
from tutti.tasks.sweeps.results.tables import focus


@pytest.fixture(scope="module")
def failed(roles: DuckDBPyConnection) -> list[Failure]:
    with focus(roles, ["roles"]) as focused:
        return failures(focused, ["roles"])


@pytest.fixture(scope="module")
def shown(roles: DuckDBPyConnection, failed: list[Failure]) -> dict[str, Transcript]:
    with focus(roles, ["roles"]) as focused:
        return transcripts(focused, failed)


def test_every_attempt_that_was_not_right_is_counted_once(failed: list[Failure]) -> None:
    counted = {(f.status, f.stop_reason, f.error): (f.n, f.cells) for f in failed}
    assert counted == {
        ("limit", "max_turns", ""): (4, 2),
        ("model_error", "no_valid_call", "<BadArguments>"): (2, 2),
        ("infra_error", "model_call_failed", "http_503"): (2, 2),
        ("scorer_error", "answered", "scorer_failed"): (2, 2),
        ("cancelled", "cancelled", ""): (2, 2),
        ("ok", "answered", WRONG): (8, 2),
    }
    messages = {f.error: f.message for f in failed}
    assert messages["http_503"] == "HTTP 503: <no engine>" and messages[WRONG] is None
    assert failed[0].n == 4 and failed[-1].error == WRONG  # by count, wrong answers last


def test_faults_of_calls_and_tools(roles: DuckDBPyConnection) -> None:
    with focus(roles, ["roles"]) as focused:
        rows = [tuple(row.values()) for row in faults(focused)]
        found = {row[:4]: row[4:] for row in rows}
    # One of three runs of each of 48 attempts; attempts 6 and 16 of each cell have a failed call.
    assert found[("tool", "ask <all>", "error", "Timeout")] == (48, 144)
    assert found[("call", "orchestrator", "error", "503")] == (4, 148)


def test_each_kind_has_the_latest_attempts_and_none_is_shown_twice(
    failed: list[Failure], shown: dict[str, Transcript]
) -> None:
    for failure in failed:
        assert any(each in shown for each in failure.examples)
    limits = next(f for f in failed if f.status == "limit")
    # Attempts of both cells end at the same moment: the greater id is first, in every run.
    assert limits.examples == ["passthrough-4", "adaptive-4", "passthrough-3"]
    assert len(shown) == sum(min(3, f.n) for f in failed) <= bounds.TRANSCRIPTS


def test_a_transcript_is_cut_and_says_so(shown: dict[str, Transcript]) -> None:
    messages = shown["adaptive-5"].messages
    assert len(messages) == FIRST_MESSAGES + LAST_MESSAGES
    assert [m["nth"] for m in messages][:5] == [1, 2, 3, 4, 43 - LAST_MESSAGES + 1]
    assert messages[1]["characters"] == len(LONG) > len(messages[1]["content"])
    assert len(messages[1]["content"]) == MESSAGE_CHARACTERS


def test_the_number_of_transcripts_and_of_kinds_is_bounded(
    roles: DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "TRANSCRIPTS", 2)
    monkeypatch.setattr(bounds, "KINDS", 3)
    with focus(roles, ["roles"]) as focused:
        failed = failures(focused, ["roles"])
        assert len(transcripts(focused, failed)) == 2
    assert len(failed) == 4 and failed[-1].error == "3 rarer kinds"
    assert sum(each.n for each in failed) == 20


def test_the_page_links_to_what_it_holds(roles: DuckDBPyConnection, tmp_path: Path) -> None:
    page = build_report(roles, ["roles"], tmp_path, "Roles", {}, files=False).page.read_text()
    links = {text.split('"')[0] for text in page.split('href="#transcript-')[1:]}
    held = {text.split('"')[0] for text in page.split('id="transcript-')[1:]}
    assert links == held and len(held) == 14
    assert "<script" not in page and "Question 5 &lt;script&gt;" in page
    assert "cut: 5,000 characters in all" in page and "27 messages left out" in page
    assert "→ ask" in page and "hm &amp; hm" in page and "&lt;BadArguments&gt;" in page
    assert "HTTP 503: &lt;no engine&gt;" in page
    assert LONG not in page
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index.html"]
    assert "2 attempts ended in infrastructure errors and are in no score" in page


def test_nothing_failed_and_no_attempts(roles: DuckDBPyConnection) -> None:
    with focus(roles, ["nowhere"]) as focused:
        assert failures(focused, ["nowhere"]) == []
        assert faults(focused) == [] and transcripts(focused, []) == {}


def page_of(shown: dict[str, Transcript], out: Path) -> str:
    """Return a page of these transcripts."""
    sections = [Section("Failed", [Transcripts(shown)])]
    return write_page(PageReport(out / "index.html"), "Failed", {}, sections).page.read_text()


def test_a_transcript_is_titled_by_its_question(
    shown: dict[str, Transcript], tmp_path: Path
) -> None:
    """The task's id alone does not help a reader."""
    page = page_of(shown, tmp_path)
    titles = re.findall(r"<summary>\d+\. (.*?)</summary>", page)
    assert len(titles) == len(shown)
    for title, each in zip(titles, shown.values(), strict=True):
        asked = [m["content"] for m in each.messages if m["role"] == "user" and m["content"]]
        start = (
            escape(" ".join(asked[0].split())[:20]) if asked else f"task {each.attempt['task_id']}"
        )
        assert title.startswith(start)


def test_a_comparison_titles_transcripts_by_their_side(
    shown: dict[str, Transcript], tmp_path: Path
) -> None:
    """The same question may have failed on both sides."""
    each = next(iter(shown.values()))
    of_b = replace(each, attempt={**each.attempt, "side": "B"})
    assert "<summary>1. B: " in page_of({"1": of_b}, tmp_path)
