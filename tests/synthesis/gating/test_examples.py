"""Every gate passes its good examples and rejects its bad ones, with a reason."""

import pytest

from tests.synthesis.gating.lending import judge_examples
from tutti.tasks.synthesis.gating import GATES


@pytest.mark.parametrize("name", GATES)
async def test_good_examples_pass_and_bad_ones_do_not(name: str) -> None:
    good, bad = await judge_examples(GATES[name])
    assert good and bad, "a gate has both"
    assert [each.reason for each in good if not each.passed] == []
    assert all(not each.passed and each.reason for each in bad)
