"""On-policy training: rollouts through the gateway, rewards, a trainer beside the engine."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.training.policy.cells import PolicyCells as PolicyCells
    from tutti.tasks.training.policy.cells import held_out_suite as held_out_suite
    from tutti.tasks.training.policy.cells import plan_policy as plan_policy
    from tutti.tasks.training.policy.cells import rollout_suite as rollout_suite
    from tutti.tasks.training.policy.job import PolicyJob as PolicyJob
    from tutti.tasks.training.policy.job import read_policy_job as read_policy_job
    from tutti.tasks.training.policy.loop import adapter_of as adapter_of
    from tutti.tasks.training.policy.loop import as_sampled as as_sampled
    from tutti.tasks.training.policy.register import summary_table as summary_table
    from tutti.tasks.training.policy.register import train_policy_job as train_policy_job

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
