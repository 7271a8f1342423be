#!/bin/bash
# Trains under Slurm, and submits itself again where the wall time ends before the training does.
# Run: sbatch [OPTIONS] train.sh sft|grpo JOB.yaml [FLAGS of tutti train]
#
# `tutti train` saves its state before the limit and ends with exit code 5 (incomplete); this script
# makes 75 of it, sysexits.h's EX_TEMPFAIL. Where it is too late for that, Slurm's signal comes: then
# the training is ended, and goes on from its last saved state.
# TUTTI_SBATCH: options of sbatch for each submission after the first (the first's are not kept).
# TUTTI_SUBMISSIONS: most submissions of one training (20).
#SBATCH --job-name=tutti-train
#SBATCH --time=04:00:00
#SBATCH --gpus=1
#SBATCH --signal=B:USR1@60
#SBATCH --open-mode=append
set -u

submission=${TUTTI_SUBMISSION:-1}
most=${TUTTI_SUBMISSIONS:-20}

submit_again() {
    if [ "$submission" -ge "$most" ]; then
        echo "train.sh: not done after $submission submissions (TUTTI_SUBMISSIONS)" >&2
        exit 1
    fi
    export TUTTI_SUBMISSION=$((submission + 1))
    # shellcheck disable=SC2086  # several options
    sbatch ${TUTTI_SBATCH:-} "$0" "$@" || exit 1
    exit 75 # not done: nothing that waits for this job by afterok may start
}

signalled=
training=
trap 'signalled=yes; [ -z "$training" ] || kill -TERM "$training" 2>/dev/null' USR1
tutti train "$@" &
training=$!
[ -z "$signalled" ] || kill -TERM "$training" 2>/dev/null # it came before the line above
wait "$training"
code=$?
if [ -n "$signalled" ]; then # `wait` ended with the signal
    wait "$training"
    code=$?
    [ "$code" -eq 0 ] || submit_again "$@"
fi
[ "$code" -ne 5 ] || submit_again "$@"
exit "$code"
