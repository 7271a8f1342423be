"""One attempt at a task of tau2-bench, by tau2's own package: the harness ``{tau2}`` of a suite.

In: the environment that `harness.command` gives; the models of user and judge, and the experts, are
in ``TUTTI_TASK``. tau2's own orchestrator, environment, simulated user and evaluator run; the agent
is tau2's, with the tool ``call_expert`` where the suite's agent has it. Out: the last line, JSON:
the reward, its parts, and why the dialogue ended.

What the measured model does wrong is reward 0: a call that is not JSON, an empty message, a context
that is too long (tau2 tries such a task again and then leaves it out). What fails elsewhere ends
this program with an error, and the sweep makes the attempt again.
"""

import argparse
import json
import os
import time
import urllib.request
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tau2_data import DOMAINS, read_tasks, use_data

if TYPE_CHECKING:
    from tau2.data_model.simulation import RewardInfo, SimulationRun, TextRunConfig
    from tau2.data_model.tasks import Task

STEPS, ERRORS = 200, 10  # tau2's own limits
RIGHT = 1e-6  # tau2's own tolerance of a success
ENDING_S = 30.0  # of the attempt's time, left for the evaluation
MOST_REASON = 500  # characters of a judge's reason
NAME = "tutti"


def main(given: Sequence[str] | None = None) -> None:
    """Make the attempt and print its result."""
    began = time.monotonic()
    options = _options(given)
    asked: dict[str, Any] = json.loads(Path(os.environ["TUTTI_TASK"]).read_text())
    name = asked["benchmark"].removeprefix("tau2-")
    domain = DOMAINS.get(name, name)
    folder = use_data(asked["source"], domain)
    from loguru import logger

    logger.remove()
    task = read_tasks(folder)[asked["id"]]
    config = _config(asked, domain, options)
    time_limit = TimeLimit(began, max(asked["seconds"] - ENDING_S, 1.0))
    print(json.dumps(_attempt(asked, task, config, options.save, time_limit)))


class TimeLimit:
    """The attempt's limit of working seconds: what its gateway held it back does not count."""

    def __init__(self, began: float, seconds: float) -> None:
        self._began, self._seconds = began, seconds

    def __call__(self) -> bool:
        """Whether the time is over; the gateway is asked only after so many seconds."""
        took = time.monotonic() - self._began
        return took > self._seconds and took - self._waited_s() > self._seconds

    def _waited_s(self) -> float:
        url = f"{os.environ['TUTTI_GATEWAY']}/programs/clock"
        body = json.dumps({"program_id": os.environ["TUTTI_PROGRAM"]}).encode()
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            clock = json.load(answer)
        return float(clock["held_s"] + clock["partner_s"])


def _options(given: Sequence[str] | None) -> argparse.Namespace:
    reader = argparse.ArgumentParser(prog="{tau2}", description=__doc__.partition("\n")[0])
    reader.add_argument("--max-steps", type=int, default=STEPS)
    reader.add_argument("--max-errors", type=int, default=ERRORS)
    reader.add_argument("--retrieval", default="bm25", help="banking's, by tau2's name")
    reader.add_argument("--save", type=Path, help="write the dialogue there, as tau2 does")
    options = reader.parse_args(given)
    if options.save is not None and not options.save.is_absolute():
        reader.error(f"--save: give the whole path of the folder, not {options.save}")
    return options


def _config(asked: Mapping[str, Any], domain: str, options: argparse.Namespace) -> "TextRunConfig":
    from tau2.data_model.simulation import TextRunConfig
    from tau2_agent import arguments

    url, user = os.environ["OPENAI_BASE_URL"], asked["roles"]["user"]
    more = {"retrieval_config": options.retrieval} if domain == "banking_knowledge" else {}
    return TextRunConfig(
        domain=domain,
        agent=NAME,
        llm_agent=f"openai/{os.environ['TUTTI_MODEL']}",
        llm_args_agent=arguments(url, asked["request"]),
        llm_user=f"openai/{user['model']}",
        llm_args_user=arguments(url, user["request"], "user"),
        max_steps=options.max_steps,
        max_errors=options.max_errors,
        seed=int(os.environ["TUTTI_SEED"]),
        **more,
    )


def _attempt(
    asked: Mapping[str, Any],
    task: "Task",
    config: "TextRunConfig",
    save: Path | None,
    time_limit: TimeLimit,
) -> dict[str, Any]:
    """The dialogue and its reward, as the last line says them."""
    from tau2.registry import registry
    from tau2.runner.build import _build_env_kwargs, build_text_orchestrator
    from tau2_agent import Agent, AgentFailed

    made: list[Agent] = []

    def agent(**given: Any) -> Agent:
        own = {name: given[name] for name in ("tools", "domain_policy", "llm", "llm_args")}
        experts = asked["roles"].get("call_expert")
        made.append(Agent(own, os.environ["OPENAI_BASE_URL"], time_limit, experts))
        return made[-1]

    registry.register_agent_factory(agent, NAME)
    episode = build_text_orchestrator(config, task, seed=config.seed)
    try:
        run = episode.run()
    except AgentFailed as error:
        said = _last([m for m in episode.get_trajectory() if m.role == "assistant"])
        return _result(said, 0.0, {"termination_reason": error.reason, "note": str(error)})
    run.policy = episode.environment.get_policy()
    said = _last([m for m in run.messages or () if m.role == "assistant"])
    try:
        run.reward_info = _reward(asked, run, task, config.domain, _build_env_kwargs(config, task))
    except Exception as error:  # a judge without a verdict, or a fault of the evaluator: no score
        return {"answer": said, "scorer_error": f"{type(error).__name__}: {error}"[:1000]}
    if save is not None:
        _save(save, task, config, run)
    detail = _detail(run.reward_info) | {"termination_reason": run.termination_reason.value}
    detail |= {"domain": config.domain, "messages": len(run.messages or ())}
    if made[0].asked:
        detail["experts"] = dict(made[0].asked)
    return _result(said, run.reward_info.reward, detail)


def _reward(
    asked: Mapping[str, Any],
    run: "SimulationRun",
    task: "Task",
    domain: str,
    environment: Mapping[str, Any],
) -> "RewardInfo":
    """tau2's own reward, with the suite's judge in place of the one that tau2 names."""
    from tau2.evaluator import evaluator_nl_assertions as judging
    from tau2.evaluator.evaluator import EvaluationType, evaluate_simulation
    from tau2_agent import arguments

    judge = asked["roles"].get("judge")
    if judge is not None:
        judging.DEFAULT_LLM_NL_ASSERTIONS = f"openai/{judge['model']}"
        given = arguments(os.environ["OPENAI_BASE_URL"], judge["request"], "judge")
        judging.DEFAULT_LLM_NL_ASSERTIONS_ARGS = given
    kind = EvaluationType.ALL
    return evaluate_simulation(run, task, kind, False, domain, env_kwargs=dict(environment) or None)


def _detail(info: "RewardInfo") -> dict[str, Any]:
    """The parts of a reward: the factors, and each check."""
    found: dict[str, Any] = {
        "reward_basis": [basis.value for basis in info.reward_basis or ()],
        "reward_breakdown": {k.value: v for k, v in (info.reward_breakdown or {}).items()},
        "db_match": None if info.db_check is None else info.db_check.db_match,
        "actions": [
            {"name": check.action.name, "match": check.action_match}
            for check in info.action_checks or ()
        ],
        "communicate": [
            {"info": check.info, "met": check.met} for check in info.communicate_checks or ()
        ],
        "env_assertions": [
            {"name": check.env_assertion.func_name, "met": check.met}
            for check in info.env_assertions or ()
        ],
        "nl_assertions": [
            {"text": c.nl_assertion, "met": c.met, "reason": (c.justification or "")[:MOST_REASON]}
            for c in info.nl_assertions or ()
        ],
        "note": (info.info or {}).get("note"),
    }
    return {name: value for name, value in found.items() if value not in (None, [], {})}


def _result(answer: str, reward: float, detail: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "answer": answer,
        "score": reward,
        "correct": abs(reward - 1.0) <= RIGHT,
        "scorer": "tau2",
        "version": metadata.version("tau2"),
        "detail": dict(detail),
    }


def _last(messages: Sequence[Any]) -> str:
    return next((m.content for m in reversed(messages) if m.content), "")


def _save(folder: Path, task: "Task", config: "TextRunConfig", run: "SimulationRun") -> None:
    from tau2.data_model.simulation import Results
    from tau2.runner.helpers import get_info

    folder.mkdir(parents=True, exist_ok=True)
    results = Results(info=get_info(config), tasks=[task], simulations=[run])
    results.save(folder / f"{os.environ['TUTTI_PROGRAM']}.json")


if __name__ == "__main__":
    main()
