"""Tests of recording an unmodified agent's conversation: each message once, every prompt whole."""

import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.serving.conftest import BOSS, Bench, MakeBench
from tests.serving.engine_double import completion
from tutti import storage
from tutti.tasks.serving.gateway.calls.transcripts import Transcripts
from tutti.tasks.serving.gateway.protocols.chat import AnswerMessage

CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


async def test_growing_prompts_are_stored_once(bench: Bench) -> None:
    """Twenty turns give forty messages and one system prompt, and each call's prompt is
    returned."""

    async def reply(_: Any, body: dict[str, Any]) -> web.StreamResponse:
        return web.json_response(completion(f"answer {len(body['messages'])}"))

    bench.engine.reply = reply
    prompt = [{"role": "system", "content": "be brief"}]
    for turn in range(20):
        prompt.append(user("go on"))
        headers = {"X-Call-Id": f"call-{turn}"}
        answer = await bench.chat("agent", headers=headers, messages=prompt)
        prompt.append((await answer.json())["choices"][0]["message"])
    said = await bench.rows("select role, content from transcript('agent')")
    assert [(row["role"], row["content"]) for row in said] == [
        (message["role"], message["content"]) for message in prompt
    ]
    for turn in (0, 7, 19):
        found = await bench.rows(f"select content from prompt('call-{turn}')")
        sent = prompt[: 2 * turn + 2]
        assert [row["content"] for row in found] == [message["content"] for message in sent]


async def test_questions_that_a_program_asks_again_are_each_there(bench: Bench) -> None:
    """For calls of one turn with equal text, the transcript has each question with its answer."""
    answers = iter(["first", "second", "other", "third"])

    async def reply(_: Any, body: dict[str, Any]) -> web.StreamResponse:
        return web.json_response(completion(next(answers)))

    bench.engine.reply = reply
    for turn, text in enumerate(("2+2?", "2+2?", "3+3?", "2+2?")):
        headers = {"X-Call-Id": f"call-{turn}"}
        await bench.chat("agent", headers=headers, messages=[user(text)])
    said = await bench.rows("select content from transcript('agent')")
    assert [row["content"] for row in said] == [
        *("2+2?", "first", "2+2?", "second", "3+3?", "other", "2+2?", "third"),
    ]
    for turn in range(4):
        (found,) = await bench.rows(f"select content from prompt('call-{turn}')")
        assert found["content"] == ("3+3?" if turn == 2 else "2+2?")


async def test_a_streamed_answer_is_put_together(bench: Bench) -> None:
    """Text and tool calls arrive in pieces; the transcript has them whole."""
    deltas = [
        {"role": "assistant", "content": ""},
        {"content": "let me "},
        {"content": "see"},
        {"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "add", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"a":'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": " 1}"}}]},
    ]

    async def reply(request: Any, _: Any) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for delta in deltas:
            event = {"choices": [{"index": 0, "delta": delta}]}
            await response.write(f"data: {json.dumps(event)}\n\n".encode())
        await response.write(b"data: [DONE]\n\n")
        return response

    bench.engine.reply = reply
    await (await bench.chat("agent", stream=True)).read()
    *_, last = await bench.rows("select content, tool_calls from transcript('agent')")
    called = [{"id": "c1", "name": "add", "arguments": '{"a": 1}'}]
    assert last == {"content": "let me see", "tool_calls": called}


PIECES = [([5, 6], [-0.5, -0.25]), ([7], [-3.0])]


def engine_of_tokens(asked: list[dict[str, Any]], stream: bool) -> Any:
    """Return an engine that replies "xx" with ids of prompt and reply if requested; as in vLLM, the
    stream's first event has the prompt's."""

    def choice(nth: int) -> dict[str, Any]:
        ids, values = PIECES[nth]
        logprobs = {"content": [{"token": "x", "logprob": value} for value in values]}
        return {"index": 0, "token_ids": ids, "logprobs": logprobs}

    async def reply(request: Any, body: dict[str, Any]) -> web.StreamResponse:
        asked.append(body)
        wanted = bool(body.get("return_token_ids"))
        prompt = list(range(10, 10 + 3 * len(body["messages"])))
        if not stream:
            whole: dict[str, Any] = choice(0) if wanted else {"index": 0, "logprobs": None}
            if wanted:
                whole["token_ids"] = [5, 6, 7]
                whole["logprobs"]["content"] += choice(1)["logprobs"]["content"]
            whole |= {"message": {"role": "assistant", "content": "xx"}, "finish_reason": "stop"}
            return web.json_response(
                {"choices": [whole]} | ({"prompt_token_ids": prompt} if wanted else {})
            )
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for nth in range(2):
            kept = choice(nth) if wanted else {"index": 0, "logprobs": None}
            event: dict[str, Any] = {
                "choices": [kept | {"delta": {"content": "x"}, "finish_reason": None}]
            }
            event |= {"prompt_token_ids": prompt} if wanted and nth == 0 else {}
            await response.write(f"data: {json.dumps(event)}\n\n".encode())
            if wanted:  # an event for its ids only
                event = {"choices": [{"index": 0, "token_ids": [], "delta": {"content": ""}}]}
                await response.write(f"data: {json.dumps(event)}\n\n".encode())
        await response.write(b"data: [DONE]\n\n")
        return response

    return reply


def seen(body: bytes) -> list[Any]:
    if not body.startswith(b"data:"):
        return [json.loads(body)]
    events = [line[5:].strip() for line in body.split(b"\n") if line.startswith(b"data:")]
    return [json.loads(event) for event in events if event != b"[DONE]"]


@pytest.mark.parametrize("stream", [False, True])
async def test_tokens_are_recorded_and_the_client_sees_what_it_would_see_without(
    make_bench: MakeBench, stream: bool
) -> None:
    """For training, exactly the sampled tokens and those of the prompt are recorded, each once."""
    asked: list[dict[str, Any]] = []
    bench = await make_bench()
    bench.engine.reply = engine_of_tokens(asked, stream)
    said = []
    for keep in (False, True):
        bench.gateway.record_tokens = keep
        said.append(seen(await (await bench.chat("agent", stream=stream)).read()))
    assert said[0] == said[1]
    again = [user("a"), {"role": "assistant", "content": "xx"}, user("b")]
    await (await bench.chat("agent", stream=stream, messages=again)).read()
    first, second, third = await bench.calls()
    assert (first["token_ids"], first["logprobs"], first["prompt_token_ids"]) == (None, None, None)
    assert (second["token_ids"], second["logprobs"]) == ([5, 6, 7], [-0.5, -0.25, -3.0])
    assert storage.read_prompts([second, third]) == {
        second["call_id"]: [10, 11, 12],
        third["call_id"]: list(range(10, 19)),
    }
    assert [span["ids"] for span in third["prompt_token_ids"]] == [None, list(range(13, 19))]
    assert ["return_token_ids" in body for body in asked] == [False, True, True]


async def test_a_call_records_the_weights_at_its_start_and_at_its_end(bench: Bench) -> None:
    (name,) = [endpoint.name for endpoint in bench.gateway.pools.all_endpoints()]
    change = {"engine": name, "version": "step-1"}

    async def reply(_: Any, body: dict[str, Any]) -> web.StreamResponse:
        async with bench.client.put("/weights", json=change, headers=BOSS) as told:
            assert told.status == 200
        return web.json_response(completion("x"))

    bench.engine.reply = reply
    await bench.chat("agent")
    change["version"] = "step-2"
    await bench.chat("agent")
    found = [(call["weights_at_start"], call["weights_at_end"]) for call in await bench.calls()]
    assert found == [(None, "step-1"), ("step-1", "step-2")]
    for wrong, status in (({"engine": name}, 400), ({"engine": "no", "version": ""}, 404)):
        async with bench.client.put("/weights", json=wrong, headers=BOSS) as told:
            assert told.status == status


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_gets_the_tokens_that_it_asks_for_itself(
    make_bench: MakeBench, stream: bool
) -> None:
    asked: list[dict[str, Any]] = []
    bench = await make_bench()
    bench.gateway.record_tokens = True
    bench.engine.reply = engine_of_tokens(asked, stream)
    answer = await bench.chat("agent", stream=stream, logprobs=True, return_token_ids=False)
    shown = seen(await answer.read())
    values = [
        each["logprob"]
        for event in shown
        for choice in event["choices"]
        for each in (choice["logprobs"] or {}).get("content", ())
    ]
    assert values == [-0.5, -0.25, -3.0]
    assert "token_ids" not in json.dumps(shown)
    assert asked[0]["return_token_ids"] is True
    (call,) = await bench.calls()
    assert call["token_ids"] == [5, 6, 7] and call["prompt_token_ids"] is not None


async def test_who_keeps_its_own_messages_is_not_recorded_twice(bench: Bench) -> None:
    headers = {"X-Tutti-Messages": "kept", "X-Call-Id": "call-1"}
    await bench.chat("attempt:1", headers=headers, messages=[user("a"), user("b")])
    assert await bench.rows("select * from messages") == []
    (call,) = await bench.calls()
    assert call["prompt_spans"] == [{"first": 0, "last": 1}]


async def test_whom_an_agent_asks_is_recorded_beside_it(bench: Bench) -> None:
    """Auxiliary prompts are a simulated user's growing prompts and a judge's: each message is
    stored once, each prompt is whole, and none of them is among the attempt's messages."""

    async def reply(_: Any, body: dict[str, Any]) -> web.StreamResponse:
        return web.json_response(completion(f"answer {len(body['messages'])}"))

    bench.engine.reply = reply
    own = {"X-Tutti-Messages": "kept", "X-Call-Id": "own"}
    await bench.chat("attempt:1", headers=own, messages=[user("task")])
    said, sent = [{"role": "system", "content": "play a customer"}], {}
    for turn in range(10):
        said.append(user(f"turn {turn}"))
        aside = {"X-Tutti-Messages": "auxiliary", "X-Tutti-Role": "user"}
        answer = await bench.chat(
            "attempt:1", headers={**aside, "X-Call-Id": f"user-{turn}"}, messages=said
        )
        sent[f"user-{turn}"] = list(said)
        said.append((await answer.json())["choices"][0]["message"])
        aside["X-Tutti-Role"], judged = "judge", [user("is it right?")]
        await bench.chat(
            "attempt:1", headers={**aside, "X-Call-Id": f"judge-{turn}"}, messages=judged
        )
        sent[f"judge-{turn}"] = judged
    assert await bench.rows("select * from messages") == []
    kept = await bench.rows("select * from auxiliary_messages order by position")
    # The judge's one question is stored once, its ten answers each; the user's 1 + 2 x 10.
    assert [row["position"] for row in kept] == list(range(21 + 11))
    assert {(row["attempt_id"], row["thread"]) for row in kept} == {("attempt:1", "user-0")}
    for call, prompt in sent.items():
        found = await bench.rows(f"select role, content from prompt('{call}') order by nth")
        assert [row["content"] for row in found] == [message["content"] for message in prompt]
    answers = {row["call_id"]: row["content"] for row in kept if row["call_id"]}
    assert answers.keys() == sent.keys() and answers["user-9"] == "answer 20"


def test_threads_of_two_gateways_are_two(catalog: storage.Catalog) -> None:
    """The judge of a re-score is called for the same attempt through another gateway without a
    collision."""
    for call_id, text in (("first", "a"), ("second", "b")):
        row = {"call_id": call_id, "attempt_id": "attempt:1", "cell_id": ""}
        asked = [{"role": "assistant", "content": "x"}, user(text)]
        made = Transcripts(catalog.home).auxiliary_rows(row, asked, None)
        storage.commit(catalog, made)
    for call_id, text in (("first", "a"), ("second", "b")):
        found = storage.query(f"select content from prompt('{call_id}')", catalog.home)
        assert [row["content"] for row in found] == ["x", text]


async def test_a_prompt_that_is_no_chat_is_recorded_as_a_call_only(bench: Bench) -> None:
    await bench.chat("p", path="/v1/completions", messages=None, prompt="once")
    await bench.chat("p", messages=["odd", 5])
    rows = await bench.calls()
    assert [row["prompt_spans"] for row in rows] == [None, None]
    assert await bench.rows("select * from messages") == []


def test_a_program_that_began_before_this_gateway_goes_on_behind_its_messages(
    catalog: storage.Catalog,
) -> None:
    """After a restart no position is assigned twice; the prompt is stored again, once."""
    row = {"call_id": "c", "attempt_id": "agent", "cell_id": ""}
    prompt = [user("a"), {"role": "assistant", "content": "b"}, user("c")]
    first = Transcripts(catalog.home).rows(row, prompt[:1], prompt[1])
    storage.commit(catalog, first)
    restarted = Transcripts(catalog.home)
    second = restarted.rows(row, prompt, {"role": "assistant", "content": "d"})
    third = restarted.rows(row, [*prompt, {"role": "assistant", "content": "d"}, user("e")], None)
    assert [message["position"] for message in first["messages"]] == [0, 1]
    assert [message["position"] for message in second["messages"]] == [2, 3, 4, 5]
    assert [message["position"] for message in third["messages"]] == [6]
    storage.commit(catalog, {k: [*second[k], *third[k]] for k in second})
    said = storage.query("select content from transcript('agent')", catalog.home)
    assert "".join(row["content"] for row in said) == "ababcde"


def test_answers_of_odd_shapes_are_no_error() -> None:
    """Other servers send other shapes; only the first choice is part of the conversation."""
    answer = AnswerMessage()
    for choice in (
        {"index": 1, "message": user("other")},
        {"message": "text"},
        {"delta": {"content": 5, "tool_calls": "none"}},
        {"delta": {"tool_calls": [3, {"function": 4}, {"function": {"name": None}}]}},
        {},
    ):
        answer.take(choice)
    message = answer.message()
    assert message is not None and message["role"] == "assistant" and "content" not in message
    assert AnswerMessage().message() is None
    whole = AnswerMessage()
    whole.take({"message": {"role": "assistant", "content": None, "tool_calls": [CALL]}})
    assert whole.message() == {"role": "assistant", "tool_calls": [CALL]}


def test_after_rows_were_lost_no_prompt_refers_to_their_tokens(tmp_path: Path) -> None:
    """Tokens belong to an attempt, also if its program has come again."""
    transcripts = Transcripts(storage.Home(tmp_path))
    transcripts.tokens.observe("p#2", "c1", [1, 2, 3], [4])
    transcripts.restart("p#2")
    (span,) = transcripts.tokens.observe("p#2", "c2", [1, 2, 3, 4, 5], [])
    assert (span["call_id"], span["ids"]) == (None, [1, 2, 3, 4, 5])
