"""Make one attempt, by tutti's agent, alone or in a world, or by another harness, and score it.

In: a sample, the id of its attempt. Out: a trajectory with its score. Connections, sandbox and
tools, which the attempts of a cell share, are opened once for the cell.
"""

import contextlib
import hashlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from tutti.storage import COUNTED, Cost, ErrorType
from tutti.tasks.agents import (
    COMBINER_ROLES,
    Agent,
    AttemptLimits,
    Message,
    ParallelSettings,
    ParallelThinker,
    Trajectory,
    agent_of,
    run_attempt,
)
from tutti.tasks.agents.commands import (
    Command,
    CommandGuard,
    CommandTrajectory,
    run_command,
    shipped_harness,
)
from tutti.tasks.agents.models import (
    ORCHESTRATOR,
    CallOrigin,
    ChatModel,
    Client,
    GatewayModel,
    ModelCallFailed,
    Sampling,
    sampling_of,
)
from tutti.tasks.agents.orchestrator import (
    ExpertTurns,
    Orchestrator,
    StrategistTurns,
    StrategyWorld,
    at_task_prices,
    drawn,
    offered_by_task,
    offered_expert_tool,
)
from tutti.tasks.agents.tools import (
    TOOL_SCHEMAS,
    DescribedTools,
    Environment,
    JoinedTools,
    Partner,
    SearchTool,
    Toolbox,
    Tools,
    open_http,
    open_mcp,
    service_search,
)
from tutti.tasks.benchmarks import MakeWorld
from tutti.tasks.sandbox import (
    NO_WALLS,
    CodeRunner,
    NoSandbox,
    Sandbox,
    SandboxSessions,
    unsafe_sandbox,
)
from tutti.tasks.scoring import SCORERS, Score, ScorerFailed, ScoringResources
from tutti.tasks.sweeps.plan import Cell, Plan, Roles, Sample, ServedModel, sandbox_level
from tutti.tasks.sweeps.run.records import attempted
from tutti.tasks.sweeps.run.roles import EXPERT, JUDGE, USER, RoleClients, room
from tutti.tasks.sweeps.spec import ParallelThinking
from tutti.tasks.task_sets import EXPERTS, Task

MOST_TOKENS = 4096
"""Tokens of a reply of a harness's user or judge, which may have tools or many assertions."""


def command_task(plan: Plan, sample: Sample, seed: int) -> dict[str, Any]:
    """The content of the file ``TUTTI_TASK``; `seed` is the sample's.

    * ``task_id``, ``id``, ``messages``, ``tools``, ``max_tokens``, ``temperature``
    * ``benchmark``: its name; ``source``: the suite's `data.source`, absolute, or null
    * ``seconds``: the time after which the harness is ended
    * ``request``: all fields of a request to the measured model, besides messages, tools and seed
    * ``roles``: ``user`` and ``judge``, each with ``model`` (the name that calls give) and
      ``request``; ``call_expert``, where the suite's agent has that tool: ``tool`` (its schema) and
      ``experts``, by alias, each with ``model`` and ``request``

    A call of another role names it in the header ``X-Tutti-Role``. Its tokens are not the
    attempt's; an expert's cost is, a user's and a judge's are not.
    """
    suite, entry = plan.suite, plan.config.model
    sampling, source = suite.sampling, suite.data.source
    temperature, most = sampling.temperature, sampling.reply_tokens
    request: Mapping[str, Any] = {"temperature": temperature, "max_tokens": most}
    if entry is not None:
        request = sampling_of(entry, temperature, most, seed).fields
    return {
        "task_id": sample.task.task_id,
        "id": sample.task.key,
        "messages": sample.task.messages,
        "tools": tuple(sample.task.tools),
        "max_tokens": most,
        "temperature": temperature,
        "benchmark": suite.benchmark_name,
        "source": None if source is None else str(source.absolute()),
        "seconds": suite.limits.command_s,
        "roles": _roles(plan, sample, seed),
        "request": _stated(request),
    }


def _roles(plan: Plan, sample: Sample, seed: int) -> dict[str, Any]:
    def entry(served: ServedModel, temperature: float, max_tokens: int) -> dict[str, Any]:
        fields = sampling_of(served.model, temperature, max_tokens, seed).fields
        return {"model": served.name, "request": _stated(fields)}

    roles, entries = plan.config.roles, dict[str, Any]()
    for role, served in ((USER, roles.user), (JUDGE, roles.judge)):
        if served is not None:
            entries[role] = entry(served, Roles.WARM, room(served.model, MOST_TOKENS))
    if roles.agent is not None and roles.agent.tools.call_expert is not None:
        tool = drawn(roles.agent, seed, sample.task.task_id).tools.call_expert
        assert tool is not None, "drawn of a file that has it"
        experts = {
            alias: entry(roles.experts[each.model], each.temperature, each.max_tokens)
            for alias, each in tool.experts.items()
        }
        entries["call_expert"] = {"tool": offered_expert_tool(tool), "experts": experts}
    return entries


def _stated(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def take_spent(done: CommandTrajectory, spent: Mapping[str, float]) -> Cost:
    """Add the gateway's counts for the attempt; return the cost of judge and user."""

    def cost(role: str = "") -> Cost:
        return Cost(spent.get(f"{role}cost_usd", 0.0), int(spent.get(f"{role}unknown_costs", 0)))

    def own(unit: str) -> int:
        others = sum(spent.get(f"{role}.{unit}", 0) for role in (USER, JUDGE, EXPERT))
        return int(spent.get(unit, 0) - others)

    aside, whole = Cost(), cost()
    for role in (USER, JUDGE):
        aside.include(cost(f"{role}."))
    done.steps = own("calls")
    done.prompt_tokens, done.cached_tokens = own("prompt_tokens"), own("cached_tokens")
    done.completion_tokens = own("completion_tokens")
    done.held_s, done.partner_s = spent.get("held_s", 0.0), spent.get("partner_s", 0.0)
    done.cost.include(Cost(whole.known_usd - aside.known_usd, whole.unknown - aside.unknown))
    return aside


class Attempts:
    """The attempts of one cell, as an async context manager."""

    def __init__(
        self,
        plan: Plan,
        cell: Cell,
        url: str,
        search_url: str | None,
        on_step: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        """`url` is the gateway's, `search_url` the retrieval service's where there is one;
        `on_step` is called with the seconds that each step of tutti's agent took."""
        self._on_step = on_step
        self.aside = Cost()
        """The cost of judges and users so far, which is in no attempt's."""
        self.plan, self.cell = plan, cell
        self._benchmark = plan.config.task_set.benchmark
        self._command = plan.suite.command
        self._url, self._search_url = url, search_url
        limits = plan.suite.limits
        self._limits = AttemptLimits(
            limits.max_turns, limits.working_s, cost_usd=limits.attempt_usd
        )
        self._open = contextlib.AsyncExitStack()

    async def __aenter__(self) -> "Attempts":
        """Raises ToolUnavailable if an MCP server does not start."""
        async with contextlib.AsyncExitStack() as stack:
            self._client = await stack.enter_async_context(Client(self._url))
            self._http = await stack.enter_async_context(open_http())
            suite = self.plan.suite
            level, harness = sandbox_level(self.plan), suite.harness
            stack.enter_context(unsafe_sandbox(harness.unsafe_sandbox))  # of domains' toolkits
            server = None if harness.mcp is None else open_mcp(harness.mcp)
            self._mcp = None if server is None else await stack.enter_async_context(server)
            sessions = None
            if harness.python == "session":  # as many as run at once: none makes room for another
                # Nor is one closed while its attempt is held: its state must not depend on it.
                idle_s = suite.limits.working_s * 60
                most = suite.load.sessions(self.cell.concurrency)
                assert level is not None, "it runs programs, so it has a level"
                pool = SandboxSessions(level, most=most, idle_s=idle_s)
                sessions = await stack.enter_async_context(pool)
            self._guard = None if self._command is None else stack.enter_context(CommandGuard())
            file = self.plan.config.roles.agent
            self._sandbox: CodeRunner = NoSandbox(NO_WALLS) if level is None else Sandbox(level)
            self._experts_sandbox = self._sandbox
            if level is not None and file is not None:
                self._experts_sandbox = Sandbox(level, file.sandbox_limits)
            self._toolbox = Toolbox(self._http, self._search_url or "", self._sandbox, sessions)
            if self._mcp is not None:  # two tools of one name are refused before the first attempt
                schemas = list(TOOL_SCHEMAS[:1] if harness.search_index is not None else ())
                schemas += TOOL_SCHEMAS[1:] if harness.python is not None else ()
                JoinedTools([self._mcp, DescribedTools(schemas)])
            self._open = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()

    async def make(
        self,
        sample: Sample,
        attempt_id: str,
        settle: Callable[[Trajectory], None] = lambda trajectory: None,
    ) -> Trajectory:
        """Make one attempt from its first call to its score. `settle` may change its status before
        it is scored (`Failures.settle`).

        If the scorer fails, the status is `scorer_error`; the gateway's records still have the
        attempt's calls.
        """
        others = RoleClients(self._client, self.cell.cell_id, attempt_id, self.plan.config.roles)
        model = self._model(sample, attempt_id)
        if self._command is not None:
            done: Trajectory = await self._run_command(sample, attempt_id, model)
        elif self._benchmark.world is not None:
            done = await self._in_world(self._benchmark.world, sample, model, others)
        elif self.plan.config.roles.agent is not None:
            done = await self._orchestrated(sample, model, others)
        else:
            done = await self._alone(sample, attempt_id, model)
        settle(done)
        try:
            done.score = await self._score(sample.task, done, others)
        finally:
            self.aside.include(others.aside)
        return done

    async def release(self, sample: Sample, attempt_id: str) -> None:
        """End the attempt and free its place at the gateway."""
        with contextlib.suppress(ModelCallFailed):  # its idle lease frees the place too
            await self._model(sample, attempt_id).release()

    def _model(
        self, sample: Sample, attempt_id: str, seed: int | None = None, role: str = ORCHESTRATOR
    ) -> GatewayModel:
        suite, entry = self.plan.suite, self.plan.config.model
        seed = self._seed(sample) if seed is None else seed
        asked = (suite.sampling.temperature, suite.sampling.reply_tokens, seed)
        sampling = Sampling(*asked) if entry is None else sampling_of(entry, *asked)
        sampling = replace(sampling, reasoning=suite.sampling.reasoning)
        file = self.plan.config.roles.agent
        if file is not None and self._benchmark.world is None:  # in a dialogue it may speak freely
            more = {**sampling.more, **file.request}
            sampling = replace(sampling, more=more)
        origin = CallOrigin(attempt_id, self.cell.cell_id, role)
        name = self.plan.config.model_name
        return GatewayModel(self._client, name, origin, sampling)

    def _seed(self, sample: Sample) -> int:
        return seed_of(self.cell.seed, sample.trial, sample.task.task_id)

    async def _run(
        self,
        prompt: Sequence[Message],
        model: ChatModel,
        tools: Tools,
        agent: Agent,
        partner: Partner | None = None,
    ) -> Trajectory:
        environment = Environment(tools, partner)
        return await run_attempt(prompt, model, environment, self._limits, agent, self._on_step)

    async def _alone(self, sample: Sample, attempt_id: str, model: GatewayModel) -> Trajectory:
        prompt, agent = sample.task.messages, self._agent(sample.task)
        if self.plan.suite.harness.parallel is not None:
            thinker = self._thinker(sample, attempt_id, self.plan.suite.harness.parallel)
            return await self._run(prompt, thinker, DescribedTools(), agent)
        async with self._tools(sample.task, attempt_id) as tools:
            return await self._run(prompt, model, tools, agent)

    def _thinker(self, sample: Sample, attempt_id: str, asked: ParallelThinking) -> ParallelThinker:
        """Parallel thinking with the measured model; its first solution is the model's own."""
        own = self._seed(sample)
        task_id = sample.task.task_id
        seeds = [
            seed_of(self.cell.seed, sample.trial, f"{task_id} solution {number}")
            for number in range(1, asked.solutions)
        ]
        solvers = [self._model(sample, attempt_id, seed) for seed in (own, *seeds)]
        combiner = self._model(sample, attempt_id, own, COMBINER_ROLES[asked.combine])
        settings = ParallelSettings(asked.combine, asked.most_chars, own)
        return ParallelThinker(solvers, combiner, settings)

    async def _orchestrated(
        self, sample: Sample, model: GatewayModel, others: RoleClients
    ) -> Trajectory:
        assert self.plan.config.roles.agent is not None, "asked for by the suite"
        task, seed = sample.task, self._seed(sample)
        file = drawn(self.plan.config.roles.agent, seed, task.task_id)
        search = service_search(self._http, self._search_url or "", task.key or None)
        own, sandbox = self._agent(task), self._experts_sandbox
        asking = Orchestrator(file, task.messages, own, others.experts(seed), search, sandbox)
        return await self._run(asking.opening, model, asking, asking.agent)

    async def _in_world(
        self, open_world: MakeWorld, sample: Sample, model: GatewayModel, others: RoleClients
    ) -> Trajectory:
        task, seed = sample.task, self._seed(sample)
        user, prompt, agent = others.user(seed), task.messages, self._agent(task)
        world = open_world(task, user)
        asked: ChatModel = model
        tools: Tools = world
        partner: Partner = world
        if self.plan.config.roles.agent is not None:
            offer = task.target.get(EXPERTS, {})
            file = drawn(self.plan.config.roles.agent, seed, task.task_id)
            file = offered_by_task(file, offer)
            experts = at_task_prices(others.experts(seed), offer)
            if file.tools.act is not None:
                directed = cast(StrategyWorld, world)  # `agent_faults` saw that it has strategies
                asked = tools = partner = StrategistTurns(
                    file, model, directed, experts, others.experts(seed, USER)
                )
            else:
                asked = tools = ExpertTurns(
                    file, model, world, experts, agent.dialect, others.dialect
                )
        try:
            done = await self._run(prompt, asked, tools, agent, partner)
            if user is not None:
                done.call_ids |= user.calls_of(done.messages, len(prompt))
            done.world_state = world.outcome()
            return done
        finally:
            await world.close()

    def _agent(self, task: Task) -> Agent:
        entry, own = self.plan.config.model, self.plan.config.task_set.agent(task)
        tokens = self.plan.suite.sampling.reply_tokens
        return own if entry is None else agent_of(entry, own, tokens)

    @contextlib.asynccontextmanager
    async def _tools(self, task: Task, attempt_id: str) -> AsyncIterator[Tools]:
        if self._benchmark.platform_tools:
            async with self._toolbox.of(attempt_id) as tools:
                yield tools
            return
        harness, several = self.plan.suite.harness, list[Tools]()
        async with contextlib.AsyncExitStack() as stack:
            if self._benchmark.search_index is not None or harness.search_index is not None:
                several.append(SearchTool(self._toolbox))
            if harness.python is not None:
                own = self._toolbox.python(attempt_id)
                several.append(await stack.enter_async_context(own))
            if self._mcp is not None:
                several.append(self._mcp)
            if len(several) > 1:
                yield JoinedTools(several)
            else:
                yield several[0] if several else DescribedTools(task.tools)

    async def _run_command(
        self, sample: Sample, attempt_id: str, model: GatewayModel
    ) -> Trajectory:
        assert self._command is not None, "asked for by the suite or its benchmark"
        command = Command(self._command, self.plan.suite.limits.command_s, self._guard)
        name, seed = self.plan.config.command_name, self._seed(sample)
        task = command_task(self.plan, sample, seed)
        done = await run_command(command, task, self._url, name, attempt_id, seed)
        try:
            spent = await model.release()
        except ModelCallFailed as error:
            done.fail("infra_error", error.error_type, str(error))
            return done
        self.aside.include(take_spent(done, spent))
        return done

    async def _score(self, task: Task, trajectory: Trajectory, others: RoleClients) -> Score | None:
        if trajectory.status not in COUNTED or not self._benchmark.is_scored:
            return None
        # The score of a harness that tutti ships is the benchmark's published rule.
        shipped = shipped_harness(self._command) is not None
        scorer = SCORERS["imported"] if shipped else self._benchmark.scoring
        resources = ScoringResources(self._sandbox, others.judge(trajectory.steps))
        try:
            submission = attempted(trajectory, self.plan.suite.sampling.reasoning)
            return await scorer.score(task.target, submission, resources)
        except ScorerFailed as error:
            text = f"{scorer.name}: {error}"
            trajectory.fail("scorer_error", ErrorType.SCORER_FAILED, text)
            return None


def seed_of(cell_seed: int, trial: int, task_id: str) -> int:
    """The seed of a sample: the same for every policy and level, different for each task and trial.

    Tasks with a common seed would be sampled alike, but intervals assume independence.
    """
    content = f"{cell_seed} {trial} {task_id}".encode()
    return int.from_bytes(hashlib.blake2b(content, digest_size=4).digest()) >> 2  # room for steps
