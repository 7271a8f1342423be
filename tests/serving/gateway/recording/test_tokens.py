"""Tests of token ids of programs with failed, repeated or auxiliary calls: all are used for
training."""

import json
from typing import Any

from aiohttp import ClientError, web

from tests.serving.conftest import BOSS, Bench, MakeBench
from tutti.tasks.training.sets.chosen import read_sequences

END = 0
ENDS = frozenset([END])


class TokenEngine:
    """Engine whose prompts have one id per user message and two per own answer, of which the second
    is `END`. Calls whose numbers are in `breaks` end in the middle of their stream."""

    def __init__(self, *breaks: int) -> None:
        self.breaks, self.calls = breaks, 0

    async def reply(self, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        self.calls += 1
        prompt: list[int] = []
        for nth, message in enumerate(body["messages"]):
            prompt += [10 + nth] if message["role"] == "user" else [100 + nth, END]
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for nth, number in enumerate((100 + len(body["messages"]), END)):
            choice: dict[str, Any] = {"index": 0, "delta": {"content": "x"}, "token_ids": [number]}
            choice["logprobs"] = {"content": [{"token": "x", "logprob": -0.5}]}
            event = {"choices": [choice]} | ({} if nth else {"prompt_token_ids": prompt})
            await response.write(f"data: {json.dumps(event)}\n\n".encode())
            if not nth and self.calls in self.breaks:
                assert request.transport is not None
                request.transport.abort()
                return response
        await response.write(b"data: [DONE]\n\n")
        return response


def dialogue(turns: int) -> list[dict[str, Any]]:
    more = [{"role": "assistant", "content": "xx"}, {"role": "user", "content": "go on"}]
    return [{"role": "user", "content": "begin"}, *more * turns]


async def ask(bench: Bench, turns: int, **headers: str) -> None:
    answer = await bench.chat("agent", stream=True, messages=dialogue(turns), headers=headers)
    try:
        await answer.read()
    except ClientError:
        return


async def trained(
    bench: Bench, attempt_id: str = "agent"
) -> tuple[list[list[int]], dict[str, str]]:
    await bench.client.post("/flush", headers=BOSS)
    reasons: dict[str, str] = {}
    found = list(read_sequences([attempt_id], ENDS, bench.catalog.home, reasons))
    return [each.turns for _, attempt in found for each in attempt.sequences], reasons


WHOLE = [-1, 0, 0, -1, 1, 1]


async def test_a_call_that_is_repeated_after_a_broken_stream_is_trained(
    make_bench: MakeBench,
) -> None:
    """The repeated prompt is stored as a reference to the failed call, which is no turn."""
    bench = await make_bench()
    bench.gateway.record_tokens = True
    bench.engine.reply = TokenEngine(2).reply
    for turns in (0, 1, 1):
        await ask(bench, turns)
    first, broken, repeated = await bench.calls()
    assert [call["status"] for call in (first, broken, repeated)] == ["ok", "infra_error", "ok"]
    assert {span["call_id"] for span in repeated["prompt_token_ids"]} == {broken["call_id"]}
    assert await trained(bench) == ([WHOLE], {})


async def test_a_first_call_that_breaks_leaves_the_attempt_whole(make_bench: MakeBench) -> None:
    bench = await make_bench()
    bench.gateway.record_tokens = True
    bench.engine.reply = TokenEngine(1, 2).reply
    for turns in (0, 0, 0, 1):
        await ask(bench, turns)
    assert await trained(bench) == ([WHOLE], {})


async def test_a_prompt_that_begins_as_a_judges_did_is_trained(make_bench: MakeBench) -> None:
    """Judge, user and experts may have the same template; their replies are no turns."""
    bench = await make_bench()
    bench.gateway.record_tokens = True
    bench.engine.reply = TokenEngine().reply
    await ask(bench, 0, **{"X-Tutti-Role": "judge", "X-Tutti-Messages": "auxiliary"})
    await ask(bench, 0)
    await ask(bench, 1)
    assert await trained(bench) == ([WHOLE], {})


async def test_a_program_that_comes_again_refers_to_no_other_attempt(
    make_bench: MakeBench,
) -> None:
    """Such a program is another attempt, which is read without the earlier one's calls."""
    bench = await make_bench(name="mine")
    bench.gateway.record_tokens = True
    bench.engine.reply = TokenEngine().reply
    for _ in range(2):
        await ask(bench, 0)
        await ask(bench, 1)
        assert await bench.release("agent")
    assert await trained(bench) == ([WHOLE], {})
    assert await trained(bench, "agent#2") == ([WHOLE], {})
