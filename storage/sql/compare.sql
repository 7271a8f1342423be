-- Is cell_b better than cell_a? One row, paired by task: repeats of a task are averaged within each
-- cell first, so that a task is one observation and its repeats are not taken as independent.
-- What counts: attempts that ended in ok, limit or model_error, of each sample the last one. The
-- score is `score`, else `correct`, else 0; `correct` where the benchmark declares its accuracy
-- (`headlines`). infra_errors, scorer_errors and cancelled attempts
-- never count; a task without a counted attempt in one of the cells is in n_only_a or n_only_b.
-- Interval: 95 %, mean difference (b - a) +- t(n - 1) s / sqrt(n). Where all differences are the
-- same there is no s, and a width of zero would claim certainty. Then the interval is what follows
-- from the share of tasks that could differ all the same: at most 1 - 0.05^(1/n) with 95 %
-- confidence ("rule of three": about 3/n), each by at most the range of scores, which is 1 or more.
-- p, two-sided: exact McNemar where all differences are -1, 0 or 1; else the paired t-test, or the
-- exact sign test where s is 0.
-- verdict: better or worse (b against a) when the interval excludes 0 and p < 0.05; else `same`
-- when it lies within +- margin; else `inconclusive`.
-- Each step follows from the one before alone: used laterally, for many pairs at once, DuckDB 2
-- loses the pair in a join of two steps.
create or replace macro compare(cell_a, cell_b, margin := 0.05) as table
with counted as (
    select 'a' as side, attempts.*, measure from attempts left join headlines using (cell_id)
    where cell_id = cell_a
    union all select 'b', attempts.*, measure from attempts left join headlines using (cell_id)
    where cell_id = cell_b
),
samples as (
    select side, task_id,
           arg_max(if(measure = 'accuracy', coalesce(cast(correct as double), 0),
                      coalesce(if(isfinite(score), score, null), cast(correct as double), 0)),
                   (coalesce(attempt, 0), coalesce(epoch_us(ended_at), 0),
                    coalesce(attempt_id, ''))) as score
    from counted where status in ('ok', 'limit', 'model_error')
    group by side, task_id, coalesce(sample_id, attempt_id)
),
tasks_seen as (
    select task_id, avg(score) filter (side = 'a') as score_a,
           avg(score) filter (side = 'b') as score_b
    from samples group by task_id
),
pairs as (
    -- Thirds and tenths are not exact: what differs by rounding alone is the same difference.
    select score_a, score_b, round(score_b - score_a, 12) as d from tasks_seen
),
sums as (
    select coalesce(count(d), 0) as n,
           coalesce(count(*) filter (score_a is not null and score_b is null), 0) as n_only_a,
           coalesce(count(*) filter (score_b is not null and score_a is null), 0) as n_only_b,
           avg(score_a) filter (d is not null) as mean_a,
           avg(score_b) filter (d is not null) as mean_b,
           min(d) as least_d, max(d) as most_d, stddev_samp(d) as deviation,
           count(*) filter (d > 0) as ups, count(*) filter (d < 0) as downs,
           coalesce(bool_and(d in (-1, 0, 1)) filter (d is not null), false) as is_binary,
           greatest(1, max(greatest(score_a, score_b)) filter (d is not null)
                       - min(least(score_a, score_b)) filter (d is not null)) as span
    from pairs
),
figures as (
    select *, n >= 2 and least_d = most_d as alike, if(n >= 2, n - 1, null) as df,
           if(least_d = most_d, least_d, mean_b - mean_a) as difference,
           if(least_d = most_d, 0, deviation) as s
    from sums
),
quantile as (
    -- t(n - 1) at 0.975: tabled up to 30, above that Abramowitz and Stegun 26.7.5 (error < 1e-7).
    select *, 1.9599639845400536::double as z,
           if(df <= 30,
              list_extract(
                  [12.7062047362, 4.3026527297, 3.1824463053, 2.7764451052, 2.5705818356,
                   2.4469118511, 2.3646242516, 2.3060041352, 2.2621571628, 2.2281388520,
                   2.2009851601, 2.1788128297, 2.1603686565, 2.1447866879, 2.1314495456,
                   2.1199052992, 2.1098155778, 2.1009220402, 2.0930240544, 2.0859634473,
                   2.0796138447, 2.0738730679, 2.0686576104, 2.0638985616, 2.0595385528,
                   2.0555294386, 2.0518305165, 2.0484071418, 2.0452296421, 2.0422724563],
                  df)::double,
              z + (z**3 + z) / (4 * df) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * df**2)
              + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * df**3)
              + (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z)
                / (92160 * df**4)) as t_975,
           if(n >= 2, 1 - pow(0.05, 1 / n), null) as unlike,
           if(n >= 2 and s > 0, abs(difference) / (s / sqrt(n)), null) as t
    from figures
),
interval95 as (
    select *, if(n >= 2, s / sqrt(n), null) as standard_error,
           (df + t * t) / ((df + 1) * (t + 1)) as scale,
           difference - if(alike, unlike * (span + difference), t_975 * s / sqrt(n)) as ci_low,
           difference + if(alike, unlike * (span - difference), t_975 * s / sqrt(n)) as ci_high
    from quantile
),
tested as (
    select *, if(n < 2, null, least(1, if(is_binary or alike,
        -- P(at most as many as the rarer direction), each direction as likely as the other.
        2 * list_sum(list_transform(range(0, least(ups, downs) + 1), lambda k:
            exp(lgamma(ups + downs + 1) - lgamma(k + 1) - lgamma(ups + downs - k + 1)
                - (ups + downs) * ln(2)))),
        -- Both tails of Student's density, by the midpoint rule on x = t + scale * y / (1 - y) for
        -- 0 < y < 1; the scale is about the length over which the density falls at t.
        2 * list_sum(list_transform(
            list_transform(range(5000), lambda k: (k + 0.5) / 5000), lambda y:
            exp(lgamma((df + 1) / 2) - lgamma(df / 2) - ln(df * pi()) / 2
                - (df + 1) / 2 * ln(1 + pow(t + scale * y / (1 - y), 2) / df))
            * scale / ((1 - y) * (1 - y) * 5000)))))) as p,
           case when n < 2 then null when is_binary then 'exact McNemar'
                when alike then 'sign test' else 'paired t-test' end as test,
           coalesce(ci_low > 0 or ci_high < 0, false) as excludes_0,
           coalesce(ci_low >= -margin and ci_high <= margin, false) as within_margin
    from interval95
)
select n, n_only_a, n_only_b, mean_a, mean_b, difference, standard_error, ci_low, ci_high, p, test,
       case when n < 2 then 'inconclusive'
            when excludes_0 and p < 0.05 then if(difference > 0, 'better', 'worse')
            when within_margin then 'same'
            else 'inconclusive' end as verdict,
       case when n = 0 then 'no task has a counted attempt in both cells'
            when n = 1 then 'one paired task: no interval can be given'
            when excludes_0 and p < 0.05 then 'the 95 % interval excludes 0 and p < 0.05'
            when within_margin then 'the 95 % interval lies within the margin of ' || margin
            when excludes_0 then 'the 95 % interval excludes 0 but p is not below 0.05'
            else 'the 95 % interval holds 0 and reaches beyond the margin of ' || margin end
       || if(alike, '; all differences are the same, so the interval is the bound on '
             || 'the share of tasks that could differ', '')
       || if(n_only_a + n_only_b > 0,
             '; left out as counted in one cell only: ' || (n_only_a + n_only_b), '') as reason
from tested;
