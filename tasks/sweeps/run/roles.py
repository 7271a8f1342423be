"""The other models of an attempt: who judges, who plays the user, whom an agent may ask.

In: where each is served, behind the candidate's own gateway. Out: for one attempt a model of each
role. Their calls are the attempt's program's, with their role in `calls`; those of judge and user
are no part of what the attempt cost.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from tutti.storage import Cost
from tutti.tasks.agents import Message
from tutti.tasks.agents.models import (
    CallOrigin,
    ChatModel,
    Client,
    GatewayModel,
    ModelCallFailed,
    Reply,
    restricted,
    sampling_of,
)
from tutti.tasks.agents.orchestrator import Expert, Experts
from tutti.tasks.scoring import JudgeSettings
from tutti.tasks.serving import Dialect, Model
from tutti.tasks.sweeps.plan import Roles, ServedModel

JUDGE, USER, EXPERT = "judge", "user", "expert"
JUDGE_TOKENS, USER_TOKENS = 1024, 512
SHARE = 4  # of a model's context: the most that an answer of it may take, so that a prompt has room


class RoleClients:
    """The other models of one attempt."""

    def __init__(self, client: Client, cell_id: str, attempt_id: str, roles: Roles) -> None:
        """`client` is the gateway's. An empty `cell_id`: the calls belong to no cell."""
        self._client, self._cell_id = client, cell_id
        self._attempt_id, self.roles = attempt_id, roles
        self.aside = Cost()
        """The cost of judge and user, which is no part of the attempt's."""

    def judge(self, step: int = 0) -> "AttemptJudge | None":
        """The judge, as scorers ask it; None where the sweep has none. `step`: after which."""
        served = self.roles.judge
        return None if served is None else AttemptJudge(self, served, step)

    def user(self, seed: int) -> "SimulatedUser | None":
        """The model that plays the user; None where the sweep has none."""
        served = self.roles.user
        if served is None:
            return None
        model = self.model(served, USER, Roles.WARM, _room(served.model, USER_TOKENS), seed)
        return SimulatedUser(model, self.aside.add)

    def experts(self, seed: int, role: str = EXPERT) -> Experts:
        """The experts, as an orchestrator asks them; with role ``user``, as its counterpart in a
        world does."""

        def made(expert: Expert) -> ChatModel:
            served = self.roles.experts[expert.model]
            return self.model(served, role, expert.temperature, expert.max_tokens, seed)

        return made

    def dialect(self, expert: Expert) -> Dialect:
        """How an expert writes calls, where nobody parses them."""
        return self.roles.experts[expert.model].model.dialect

    def model(
        self, served: ServedModel, role: str, temperature: float, max_tokens: int, seed: int
    ) -> GatewayModel:
        """One of them, as it is asked."""
        sampling = sampling_of(served.model, temperature, max_tokens, seed)
        origin = CallOrigin(self._attempt_id, self._cell_id, role)
        return GatewayModel(self._client, served.name, origin, sampling)

    def judging(
        self, served: ServedModel, settings: JudgeSettings, max_tokens: int, seed: int
    ) -> GatewayModel:
        """The judge, asked with `settings` for at most `max_tokens`.

        Raises ModelCallFailed (400) for a schema where the registry's entry has a form of its own.
        """
        asked: dict[str, Any] = {"temperature": settings.temperature}
        if settings.schema is not None:
            if "response_format" in served.model.fields:
                raise ModelCallFailed(f"{served.name}: its entry states response_format", 400)
            form = {"name": "verdict", "strict": True, "schema": settings.schema}
            asked["response_format"] = {"type": "json_schema", "json_schema": form}
        sampling = sampling_of(served.model, Roles.WARM, max_tokens, seed)
        # None takes the temperature out, which a number cannot; an entry's own fields come last.
        sampling = replace(sampling, more={**asked, **sampling.more})
        origin = CallOrigin(self._attempt_id, self._cell_id, JUDGE)
        return GatewayModel(self._client, served.name, origin, sampling)


class AttemptJudge:
    """The judge of one attempt (`tutti.tasks.scoring` asks it)."""

    def __init__(self, models: RoleClients, served: ServedModel, step: int) -> None:
        self._models, self._served, self._step = models, served, step

    async def ask(
        self, prompt: str, seed: int, settings: JudgeSettings | None = None
    ) -> tuple[str, str]:
        """The judge's text, and the id of the call that gave it. What the registry's entry states
        (`request`) takes the place of `settings`.

        Raises ModelCallFailed, ContextExceeded; scorers make a scorer_error of both.
        """
        settings = settings or JudgeSettings(Roles.WARM)
        most = _room(self._served.model, settings.max_tokens or JUDGE_TOKENS)
        model = self._models.judging(self._served, settings, most, seed)
        reply = await model.complete([{"role": "user", "content": prompt}], (), self._step)
        self._models.aside.add(reply.cost_usd)
        return reply.message["content"], reply.call_id


@asynccontextmanager
async def open_judge(url: str, served: ServedModel) -> AsyncIterator[Callable[[str], AttemptJudge]]:
    """The judge of attempts that ended before, by their ids; its calls belong to no cell."""
    async with Client(url) as client:
        roles = Roles(judge=served)
        yield lambda attempt_id: AttemptJudge(RoleClients(client, "", attempt_id, roles), served, 0)


class SimulatedUser:
    """A model that remembers which call said what."""

    def __init__(self, model: ChatModel, pay: Callable[[float | None], None]) -> None:
        """`pay` hears what each answer cost."""
        self._model, self._pay = model, pay
        self._said: list[tuple[str, str]] = []

    async def complete(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]],
        step: int,
        positions: Sequence[int] | None = None,
    ) -> Reply:
        """As the model's. Raises as the model does."""
        reply = await self._model.complete(messages, tools, step, positions)
        self._pay(reply.cost_usd)
        self._said.append((reply.message["content"], reply.call_id))
        return reply

    def choosing(self, choices: Sequence[str]) -> "SimulatedUser":
        """The same user, answering with one of `choices`. Raises TypeError if its model cannot."""
        made = SimulatedUser(restricted(self._model, choices), self._pay)
        made._said = self._said
        return made

    def calls_of(self, messages: Sequence[Message], start: int) -> dict[int, str]:
        """Positions, from `start` on, of what the user said to the ids of the calls that said it:
        by the text, in order, so where a world says it in other words there is none."""
        found, left = dict[int, str](), list(self._said)
        for position, message in enumerate(messages[start:], start):
            if message["role"] != "user":
                continue
            place = next((n for n, (text, _) in enumerate(left) if _same(message, text)), None)
            if place is not None:
                found[position] = left[place][1]
                del left[: place + 1]
        return found


def _same(message: Message, text: str) -> bool:
    content = message["content"]
    return bool(content) and content == text


def _room(model: Model, wanted: int) -> int:
    return max(1, min(wanted, model.context_tokens // SHARE))
