"""What the page says below its tables: how each figure is counted."""

OUTCOME_NOTE = (
    "n: attempts that count in accuracy (ok, limit, model_error); infrastructure errors are never "
    "wrong answers and stand beside it. Steps, rates and latencies are of the cell's window; "
    "accuracy, errors and cost are of the whole cell. Percentiles are of the steps counted; "
    "intervals of rates and of p95 are by batches of steps, since neighbouring steps are alike."
)
TRIALS_NOTE = (
    "Means over the tasks with at least k counted trials (tasks); left out: tasks with fewer. "
    "pass@k: at least one of k trials is right; pass^k: all are; both unbiased. avg@n is pass@1. "
    "majority@k: the expected score of the answer that most of k trials give; a tie gives the mean "
    "of the tied answers. best of k: the expected highest score of k trials. Intervals are over "
    "tasks."
)
REACHED_NOTE = (
    "Means over the window, beside the sessions asked for (at once). late: how long after it was "
    "due an attempt of an open loop started. sent: a step's latency from its send, as elsewhere in "
    "this report; intended: from when its session could have sent it, so with what the client "
    "itself added. The client was the bottleneck (slow) where that is more than 5 % of the p95 and "
    "50 ms (closed loops), or where it used more than 90 % of a core and held less than 98 % of "
    "the sessions asked for (of an open loop: started later than 50 ms, p95)."
)
EFFICIENCY_NOTE = (
    "Solved in time: no step slower than the suite's limit on step latency (saturation), else than "
    "twice the baseline's p95 at the lowest load; of the windows. Joules: of all GPUs that NVML "
    "sees, over what was solved in the windows. Cost and working seconds (without being held): of "
    "all attempts of the cells, failed ones too, over the right answers; intervals are Fieller's, "
    "over tasks, of joules over tenths of the windows."
)
FRONT_NOTE = (
    "front: on: no other set-up of the benchmark can be as cheap and as good, as far as the "
    "intervals go; off: one surely is; maybe: the rest."
)
NOISE_NOTE = (
    "A/A: the first policy measured once more with the same tasks, order and seeds; in no other "
    "figure. Repeats have other seeds, so their scores differ by more than the engine's noise."
)
SERVER_NOTE = (
    "Means over the window. Prefix hits: tokens found in the cache over tokens looked up, by the "
    "server's counters. The window is in seconds since the cell's first request."
)
COMPARED_NOTE = (
    "Scores, seconds and cost: paired by task, repeats of a task averaged first; n: tasks tried on "
    "both sides. steps/min: a ratio of independent rates; n: steps. p is Holm's over the "
    "comparisons of one figure; intervals are of each comparison alone. same: the interval lies "
    "within 5 points of score, or 5 % of the value before; inconclusive: the data does not tell, "
    "or a window is too short for an interval."
)
