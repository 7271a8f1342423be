"""Set-ups in narrow tables: what is shared is said once; equal notes are one line."""

from tutti.cli.judge.compare import apart, grouped


def test_what_all_share_is_said_once() -> None:
    rows = ["gsm8k, m, cap, 2 at once", "gsm8k, m, cap, 8 at once", "gsm8k, m, adaptive, 8 at once"]
    assert apart(rows) == ("gsm8k, m", ["cap, 2 at once", "cap, 8 at once", "adaptive, 8 at once"])


def test_one_set_up_is_left_whole() -> None:
    assert apart(["gsm8k, m"]) == ("", ["gsm8k, m"])
    assert apart(["a, b", "a, b"]) == ("", ["a, b", "a, b"])
    assert apart([]) == ("", [])


def test_equal_notes_are_one_line() -> None:
    assert grouped([("a", "same"), ("b", "same")]) == ["same"]
    assert grouped([("a", "same"), ("b", "worse"), ("c", "same")]) == ["same: a; c", "worse: b"]
    assert grouped([]) == []
