-- Is cell_b better than cell_a? One row, paired by task: repeats of a task are averaged within each
-- cell first, so that a task is one observation and its repeats are not taken as independent.
-- What counts: attempts that ended in ok, limit or model_error, of each sample the last one. The
-- score is `score`, else `correct`, else 0. infra_errors, scorer_errors and cancelled attempts
-- never count; a task without a counted attempt in one of the cells is in n_only_a or n_only_b.
-- Interval: 95 %, mean difference (b - a) +- t(n - 1) s / sqrt(n). Where all differences are the
-- same there is no s, and a width of zero would claim certainty. Then the interval is what follows
-- from the share of tasks that could differ all the same: at most 1 - 0.05^(1/n) with 95 %
-- confidence ("rule of three": about 3/n), each by at most the range of scores, which is 1 or more.
-- p, two-sided: exact McNemar where all differences are -1, 0 or 1; else the paired t-test, or the
-- exact sign test where s is 0.
-- verdict: better or worse (b against a) when the interval excludes 0 and p < 0.05; else `same`
-- when it lies within +- margin; else `inconclusive`.
create or replace macro compare(cell_a, cell_b, margin := 0.05) as table
with counted as (
    select s.side, a.task_id, coalesce(a.sample_id, a.attempt_id) as sample, a.attempt,
           a.ended_at, a.attempt_id,
           coalesce(if(isfinite(a.score), a.score, null), cast(a.correct as double), 0) as score
    from attempts a join (values ('a', cell_a), ('b', cell_b)) s(side, cell) on a.cell_id = s.cell
    where a.status in ('ok', 'limit', 'model_error')
),
samples as (
    select side, task_id,
           arg_max(score, (coalesce(attempt, 0), coalesce(epoch_us(ended_at), 0),
                           coalesce(attempt_id, ''))) as score
    from counted group by side, task_id, sample
),
tasks_seen as (
    select task_id, avg(score) filter (side = 'a') as score_a,
           avg(score) filter (side = 'b') as score_b
    from samples group by task_id
),
pairs as (
    -- Thirds and tenths are not exact: what differs by rounding alone is the same difference.
    select score_a, score_b, round(score_b - score_a, 12) as d from tasks_seen
    where score_a is not null and score_b is not null
),
figures as (
    select count(*) as n, avg(score_a) as mean_a, avg(score_b) as mean_b,
           if(min(d) = max(d), min(d), avg(score_b) - avg(score_a)) as difference,
           if(min(d) = max(d), 0, stddev_samp(d)) as s, min(d) = max(d) as alike,
           count(*) filter (d > 0) as ups, count(*) filter (d < 0) as downs,
           coalesce(bool_and(d in (-1, 0, 1)), false) as is_binary,
           greatest(1, max(greatest(score_a, score_b)) - min(least(score_a, score_b))) as span
    from pairs
),
others as (
    select count(*) filter (score_b is null) as n_only_a,
           count(*) filter (score_a is null) as n_only_b
    from tasks_seen
),
quantile as (
    -- t(n - 1) at 0.975: tabled up to 30, above that Abramowitz and Stegun 26.7.5 (error < 1e-7).
    select *, n - 1 as df, 1.9599639845400536::double as z,
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
           1 - pow(0.05, 1 / n) as unlike,
           if(s > 0, abs(difference) / (s / sqrt(n)), null) as t
    from figures where n >= 2
),
interval95 as (
    select *, s / sqrt(n) as standard_error,
           difference - if(alike, unlike * (span + difference), t_975 * s / sqrt(n)) as ci_low,
           difference + if(alike, unlike * (span - difference), t_975 * s / sqrt(n)) as ci_high
    from quantile
),
binomial as (
    -- P(at most as many as the rarer direction), each direction as likely as the other.
    select 2 * sum(exp(lgamma(ups + downs + 1) - lgamma(k + 1) - lgamma(ups + downs - k + 1)
                       - (ups + downs) * ln(2))) as p
    from quantile, (select unnest(range(0, least(ups, downs) + 1)) as k from quantile)
),
student as (
    -- Both tails of Student's density, by the midpoint rule on x = t + scale * y / (1 - y) for
    -- 0 < y < 1; the scale is about the length over which the density falls at t.
    select 2 * sum(exp(lgamma((df + 1) / 2) - lgamma(df / 2) - ln(df * pi()) / 2
                       - (df + 1) / 2 * ln(1 + x * x / df)) * scale / ((1 - y) * (1 - y) * 5000))
               as p
    from (select df, y, scale, t + scale * y / (1 - y) as x
          from (select df, t, (df + t * t) / ((df + 1) * (t + 1)) as scale from quantile),
               (select (k + 0.5) / 5000 as y from range(5000) r(k)))
),
tested as (
    select i.*, least(1, if(is_binary or alike, b.p, c.p)) as p,
           case when is_binary then 'exact McNemar' when alike then 'sign test'
                else 'paired t-test' end as test
    from interval95 i, binomial b, student c
),
judged as (
    select f.n, o.n_only_a, o.n_only_b, f.mean_a, f.mean_b, f.difference, t.standard_error,
           t.ci_low, t.ci_high, t.p, t.test, coalesce(t.alike, false) as alike,
           (t.ci_low > 0 or t.ci_high < 0) as excludes_0,
           (t.ci_low >= -margin and t.ci_high <= margin) as within_margin
    from figures f cross join others o left join tested t on true
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
       || if(alike and n >= 2, '; all differences are the same, so the interval is the bound on '
             || 'the share of tasks that could differ', '')
       || if(n_only_a + n_only_b > 0,
             '; left out as counted in one cell only: ' || (n_only_a + n_only_b), '') as reason
from judged;
