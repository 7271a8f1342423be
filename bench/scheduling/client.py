"""The client of the scheduling bench: sessions that run programs one after another, in one process.

In: a front (where calls go and how a program is named there), programs, sessions. Out: `Outcome`
with one `Step` a call. A step's latency runs from when the program wanted its call to its answer,
so time held at a gateway is in it, and so are retries. Nothing waits without a bound.
"""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import orjson

from bench.scheduling.engine import SERVED_NAME
from bench.scheduling.work import Message, Program

CALL_TIMEOUT_S = 300.0
RELEASE_TIMEOUT_S = 10.0
HELD_EVERY_S = 0.25
TRIES = 4
RETRY_AFTER_S = 0.5
HTTP_FAILED = 500
NO_ANSWER = 0
"""Status of a call that got no answer at all."""


@dataclass(frozen=True)
class ArmEndpoint:
    """The endpoint of an arm."""

    url: str
    releases: bool = False
    """Whether it must be notified when a program ends."""
    names_in_body: bool = False
    """Whether the program's name is sent in the body; otherwise in a header."""
    tells_held: bool = False
    """Whether its /health reports the number of held calls."""


@dataclass(frozen=True)
class Step:
    """One call and the following tool run; times are seconds since the cell began."""

    program: int
    step: int
    intended_s: float
    sent_s: float
    """Of the try that succeeded."""
    ended_s: float
    tool_end_s: float
    status: int
    tries: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    reusable_tokens: int
    """Prompt tokens that an unlimited cache would have held."""

    @property
    def latency_s(self) -> float:
        """From the time the call was due to its answer."""
        return self.ended_s - self.intended_s

    def row(self) -> list[float]:
        """Its record: whole numbers as they are, times to 0.1 ms."""
        values = (getattr(self, name) for name in STEP_COLUMNS)
        return [round(v, 4) if isinstance(v, float) else v for v in values]


STEP_COLUMNS = tuple(Step.__dataclass_fields__)


@dataclass
class Outcome:
    """The client's measurements of a cell."""

    steps: list[Step] = field(default_factory=list)
    began_s: dict[int, float] = field(default_factory=dict)
    """When each program was started by its session."""
    ended_s: dict[int, float] = field(default_factory=dict)
    """When each program that completed all its calls ended."""
    held: list[tuple[float, int, int]] = field(default_factory=list)
    """(seconds, calls held at the gateway, unanswered calls)."""
    cut: bool = False
    """Whether the cell exceeded its time limit."""
    seconds: float = 0.0


class ProgramFailed(Exception):
    """A call of the program was not answered within its tries."""


class Client:
    """Runs programs against one front."""

    def __init__(self, front: ArmEndpoint, http: aiohttp.ClientSession, answer_tokens: int) -> None:
        self.front, self._http, self._answer_tokens = front, http, answer_tokens
        self.outcome = Outcome()
        self._began = time.monotonic()
        self._in_flight = 0

    async def run(
        self, programs: Sequence[Program], starts: Sequence[float], releases: bool, limit_s: float
    ) -> Outcome:
        """All programs, over as many sessions as there are starts, for at most `limit_s`."""
        waiting = deque(enumerate(programs))
        poll = asyncio.create_task(self._watch_held()) if self.front.tells_held else None
        self._began = time.monotonic()
        try:
            async with asyncio.timeout(limit_s), asyncio.TaskGroup() as sessions:
                for start in starts:
                    sessions.create_task(self._session(waiting, start, releases))
        except TimeoutError:
            self.outcome.cut = True
        finally:
            self.outcome.seconds = self._now()
            if poll is not None:
                poll.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await poll
        return self.outcome

    def _now(self) -> float:
        return time.monotonic() - self._began

    async def _session(
        self, waiting: deque[tuple[int, Program]], start: float, releases: bool
    ) -> None:
        await asyncio.sleep(start)
        while waiting:
            place, program = waiting.popleft()
            self.outcome.began_s[place] = self._now()
            with contextlib.suppress(ProgramFailed):
                await self._program(place, program)
                self.outcome.ended_s[place] = self._now()
            if releases and self.front.releases:
                await self._release(program.name)

    async def _program(self, place: int, program: Program) -> None:
        messages = program.first_messages()
        previous = 0
        for step in range(program.calls):
            pause = program.pauses_s[step] if step + 1 < program.calls else 0.0
            reusable = program.reusable_tokens(step, previous)
            answer, done = await self._step(place, step, program.name, messages, reusable, pause)
            if step + 1 == program.calls:
                return
            await asyncio.sleep(max(0.0, done.tool_end_s - self._now()))
            previous = done.prompt_tokens + done.completion_tokens
            messages = program.next_messages(messages, step + 1, answer)

    async def _step(
        self,
        place: int,
        step: int,
        name: str,
        messages: list[Message],
        reusable: int,
        pause_s: float,
    ) -> tuple[str, Step]:
        intended = self._now()
        for tries in range(1, TRIES + 1):
            sent = self._now()
            status, answer = await self._call(name, messages)
            ended = self._now()
            usage = answer.get("usage", {})
            details = usage.get("prompt_tokens_details") or {}
            known = (usage.get("prompt_tokens", 0), details.get("cached_tokens") or 0)
            written = usage.get("completion_tokens", 0)
            times = (intended, sent, ended, ended + pause_s)
            done = Step(place, step, *times, status, tries, *known, written, reusable)
            if status == 200:
                self.outcome.steps.append(done)
                return answer["choices"][0]["message"]["content"], done
            if NO_ANSWER < status < HTTP_FAILED or tries == TRIES:
                self.outcome.steps.append(done)
                raise ProgramFailed(name)
            await asyncio.sleep(RETRY_AFTER_S)
        raise AssertionError("a call is answered or given up")

    async def _call(self, name: str, messages: list[Message]) -> tuple[int, dict[str, Any]]:
        body: dict[str, Any] = {
            "model": SERVED_NAME,
            "messages": messages,
            "max_tokens": self._answer_tokens,
            "ignore_eos": True,
            "temperature": 0,
        }
        if self.front.names_in_body:
            body["program_id"] = name
        headers = {"Content-Type": "application/json", "X-Program-Id": name, "x-session-id": name}
        url = f"{self.front.url}/v1/chat/completions"
        self._in_flight += 1
        try:
            async with self._http.post(url, data=orjson.dumps(body), headers=headers) as answer:
                data = await answer.read()
                return answer.status, orjson.loads(data) if answer.status == 200 else {}
        except (aiohttp.ClientError, TimeoutError, orjson.JSONDecodeError):
            return NO_ANSWER, {}  # counted; the caller tries again
        finally:
            self._in_flight -= 1

    async def _release(self, name: str) -> None:
        url = f"{self.front.url}/programs/release"
        wait = aiohttp.ClientTimeout(total=RELEASE_TIMEOUT_S)
        with contextlib.suppress(aiohttp.ClientError, TimeoutError):  # its lease will end it
            async with self._http.post(url, json={"program_id": name}, timeout=wait) as answer:
                await answer.read()

    async def _watch_held(self) -> None:
        while True:
            await asyncio.sleep(HELD_EVERY_S)
            with contextlib.suppress(aiohttp.ClientError, TimeoutError, orjson.JSONDecodeError):
                async with self._http.get(f"{self.front.url}/health") as answer:
                    held = orjson.loads(await answer.read()).get("held", 0)
                    self.outcome.held.append((self._now(), held, self._in_flight))


async def run_programs(
    front: ArmEndpoint,
    programs: Sequence[Program],
    starts: Sequence[float],
    *,
    releases: bool,
    answer_tokens: int,
    limit_s: float,
) -> Outcome:
    """The programs on connections of their own."""
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=CALL_TIMEOUT_S)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as http:
        return await Client(front, http, answer_tokens).run(programs, starts, releases, limit_s)
