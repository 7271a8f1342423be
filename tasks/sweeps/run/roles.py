"""The other models of an attempt: its judge, its simulated user, the experts of its agent.

In: where each is served, behind the candidate's own gateway. Out: for one attempt a model of each
role. Their calls belong to the attempt's program, with their role in `calls`; those of judge and
user are not in the attempt's cost.
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
    Sampling,
    restricted,
    sampling_of,
)
from tutti.tasks.agents.orchestrator import Expert, Experts
from tutti.tasks.scoring import JudgeSettings
from tutti.tasks.serving.registry import Dialect, Model
from tutti.tasks.sweeps.plan import Roles, ServedModel

JUDGE, USER, EXPERT = "judge", "user", "expert"
JUDGE_TOKENS, USER_TOKENS = 1024, 512
SHARE = 4  # of a model's context: the most that an answer of it may take, so that a prompt has room


class RoleClients:
    def __init__(self, client: Client, cell_id: str, attempt_id: str, roles: Roles) -> None:
        """`client` is the gateway's. With an empty `cell_id` the calls belong to no cell."""
        self._client, self._cell_id = client, cell_id
        self._attempt_id, self.roles = attempt_id, roles
        self.aside = Cost()
        """The cost of judge and user, which is no part of the attempt's."""

    def judge(self, step: int = 0) -> "AttemptJudge | None":
        served = self.roles.judge
        return None if served is None else AttemptJudge(self, served, step)

    def user(self, seed: int) -> "SimulatedUser | None":
        """Return the model of the simulated user; None if the sweep has none."""
        served = self.roles.user
        if served is None:
            return None
        sampling = sampling_of(served.model, Roles.WARM, room(served.model, USER_TOKENS), seed)
        return SimulatedUser(self.model(served, USER, sampling), self.aside.add)

    def experts(self, seed: int, role: str = EXPERT) -> Experts:
        """Return the experts for an orchestrator; with role ``user``, for its counterpart in a
        world."""

        def model(expert: Expert) -> ChatModel:
            served = self.roles.experts[expert.model]
            sampling = sampling_of(served.model, expert.temperature, expert.max_tokens, seed)
            return self.model(served, role, sampling)

        return model

    def dialect(self, expert: Expert) -> Dialect:
        """The form of an expert's tool calls where no server parses them."""
        return self.roles.experts[expert.model].model.dialect

    def model(self, served: ServedModel, role: str, sampling: Sampling) -> GatewayModel:
        origin = CallOrigin(self._attempt_id, self._cell_id, role)
        return GatewayModel(self._client, served.name, origin, sampling)


class AttemptJudge:
    """The judge of one attempt, for `tutti.tasks.scoring`."""

    def __init__(self, models: RoleClients, served: ServedModel, step: int) -> None:
        self._models, self._served, self._step = models, served, step

    async def ask(
        self, prompt: str, seed: int, settings: JudgeSettings | None = None
    ) -> tuple[str, str]:
        """The judge's text, and the id of the call that gave it. The fields of the registry's entry
        (`request`) take the place of `settings`.

        Raises ModelCallFailed (400 for a schema where the entry has a form of its own) and
        ContextExceeded; scorers make a scorer_error of both.
        """
        settings, served = settings or JudgeSettings(Roles.WARM), self._served
        fields: dict[str, Any] = {"temperature": settings.temperature}
        if settings.schema is not None:
            if "response_format" in served.model.fields:
                raise ModelCallFailed(f"{served.name}: its entry states response_format", 400)
            form = {"name": "verdict", "strict": True, "schema": settings.schema}
            fields["response_format"] = {"type": "json_schema", "json_schema": form}
        most = room(served.model, settings.max_tokens or JUDGE_TOKENS)
        sampling = sampling_of(served.model, Roles.WARM, most, seed)
        # None takes the temperature out, which a number cannot; an entry's own fields come last.
        sampling = replace(sampling, more={**fields, **sampling.more})
        model = self._models.model(served, JUDGE, sampling)
        reply = await model.complete([{"role": "user", "content": prompt}], (), self._step)
        self._models.aside.add(reply.cost_usd)
        return reply.message["content"], reply.call_id


@asynccontextmanager
async def open_judge(url: str, served: ServedModel) -> AsyncIterator[Callable[[str], AttemptJudge]]:
    """Provide judges for attempts that ended before, by their ids; the calls belong to no cell."""
    async with Client(url) as client:
        roles = Roles(judge=served)
        yield lambda attempt_id: AttemptJudge(RoleClients(client, "", attempt_id, roles), served, 0)


class SimulatedUser:
    """A model that remembers which call gave which reply."""

    def __init__(self, model: ChatModel, pay: Callable[[float | None], None]) -> None:
        """`pay` is called with the cost of each reply."""
        self._model, self._pay = model, pay
        self._replies: list[tuple[str, str]] = []

    async def complete(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]],
        step: int,
        positions: Sequence[int] | None = None,
    ) -> Reply:
        reply = await self._model.complete(messages, tools, step, positions)
        self._pay(reply.cost_usd)
        self._replies.append((reply.message["content"], reply.call_id))
        return reply

    def choosing(self, choices: Sequence[str]) -> "SimulatedUser":
        """The same user, answering with one of `choices`. Raises TypeError if its model cannot."""
        user = SimulatedUser(restricted(self._model, choices), self._pay)
        user._replies = self._replies
        return user

    def calls_of(self, messages: Sequence[Message], start: int) -> dict[int, str]:
        """Positions, from `start` on, of the user's messages to the ids of their calls: by the
        text, in order. A message that a world has reworded has none."""
        calls, left = dict[int, str](), list(self._replies)
        for position, message in enumerate(messages[start:], start):
            texts = [text for text, _ in left]
            if message["role"] == "user" and message["content"] in filter(None, texts):
                place = texts.index(message["content"])
                calls[position] = left[place][1]
                del left[: place + 1]
        return calls


def room(model: Model, wanted: int) -> int:
    """The most tokens of a reply that leave a prompt its place in the context."""
    return max(1, min(wanted, model.context_tokens // SHARE))
