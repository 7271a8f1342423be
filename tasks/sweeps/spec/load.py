"""Starts of a cell's sessions: closed loop, ramp, or open loop (Poisson arrivals, a trace).

In: a suite's `load`, a level, a number of samples, a seed. Out: seconds from the cell's start at
which each sample is due; none in a closed loop, where a session starts when the one before it has
ended.
"""

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Annotated, Any, Literal

import pydantic

from tutti.tasks.platform import NotInId, Strict, explain, identity_of
from tutti.tasks.sweeps import SuiteError

CROWD = 8  # sessions at once in an open loop, as a multiple of the level; what waits beyond is late
NEEDED = {"ramp": "over_s", "poisson": "session_s", "trace": "file"}


class Load(Strict):
    """The arrival pattern of sessions."""

    kind: Literal["closed", "ramp", "poisson", "trace"] = pydantic.Field(
        "closed",
        description="closed: a session starts when one has ended; ramp: likewise, one more at a "
        "time; poisson, trace: when they are due, whether or not others have ended",
    )
    over_s: float | None = pydantic.Field(
        None, gt=0, description="of a ramp: seconds until all sessions run"
    )
    session_s: float | None = pydantic.Field(
        None,
        gt=0,
        description="of poisson: at a level of c, c / session_s sessions start a second: about c "
        "run at once if each takes so long",
    )
    file: Annotated[Path | None, NotInId("the arrivals in it")] = pydantic.Field(
        None, description='of a trace: a JSON list or JSON lines, each {"at": seconds} or a number'
    )
    speed: float = pydantic.Field(1.0, gt=0, description="of a trace: how many times as fast")

    @pydantic.model_validator(mode="after")
    def _of_its_kind(self) -> "Load":
        for kind, name in NEEDED.items():
            given = getattr(self, name) is not None
            if given and kind != self.kind:
                raise ValueError(f"`{name}` is for `kind: {kind}`, not {self.kind}")
            if not given and kind == self.kind:
                raise ValueError(f"`kind: {kind}` needs `{name}`")
        if self.speed != 1 and self.kind != "trace":
            raise ValueError(f"`speed` is for `kind: trace`, not {self.kind}")
        return self

    @property
    def is_open(self) -> bool:
        return self.kind in ("poisson", "trace")

    @property
    def content(self) -> dict[str, Any]:
        """The content for ids; for a trace the file's arrivals, independent of its path."""
        content = {name: each for name, each in identity_of(self).items() if each is not None}
        return content if self.file is None else content | {"trace": read_trace(self.file)}

    def sessions(self, level: int) -> int:
        """Return the maximum of concurrent sessions."""
        return CROWD * level if self.is_open else level

    def ramp_starts(self, level: int) -> list[float]:
        """Return seconds after which each session takes its first sample, shape (sessions,)."""
        step = 0.0 if self.over_s is None else self.over_s / level
        return [place * step for place in range(self.sessions(level))]

    def due_times(self, level: int, samples: int, seed: int) -> Sequence[float] | None:
        """Seconds at which each sample is due, shape (samples,), ascending; None in a closed loop.

        Raises SuiteError for an invalid trace, or one with too few arrivals.
        """
        if self.session_s is not None:  # of poisson
            draw, rate = Random(f"{seed}/{level}/arrivals"), level / self.session_s
            return list(accumulate(draw.expovariate(rate) for _ in range(samples)))
        if self.file is None:  # it is no trace
            return None
        arrivals = read_trace(self.file)
        if len(arrivals) < samples:
            raise SuiteError(
                f"load.file: {self.file}: {len(arrivals)} arrivals for {samples} samples; give a "
                "longer trace, or fewer samples (`limit`, `repetition.trials`)"
            )
        return [at / self.speed for at in arrivals[:samples]]


class _Arrival(pydantic.BaseModel):
    at: pydantic.FiniteFloat


ARRIVALS: pydantic.TypeAdapter[list[pydantic.FiniteFloat | _Arrival]] = pydantic.TypeAdapter(
    list[pydantic.FiniteFloat | _Arrival]
)


def read_trace(path: Path) -> list[float]:
    """Return arrivals in seconds from the first, ascending, from a JSON list or lines of JSON.
    Raises SuiteError with file, index (from 0) and value."""
    try:
        text = path.read_text()
        if not text.lstrip().startswith("["):
            text = f"[{','.join(filter(str.strip, text.splitlines()))}]"
        arrivals = ARRIVALS.validate_json(text)
    except pydantic.ValidationError as error:
        raise SuiteError(f"load.file: {path}: {explain(error)}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise SuiteError(f"load.file: {path}: {error}") from error
    if not arrivals:
        raise SuiteError(f"load.file: {path}: no arrivals")
    seconds = sorted(each.at if isinstance(each, _Arrival) else each for each in arrivals)
    return [at - seconds[0] for at in seconds]
