-- cell_b against cell_a, paired by task: repeats of a task are averaged within each cell first, so
-- that a task is one observation and its repeats are not taken as independent. One row. Whether b is
-- better is the verdict of `tutti compare`, which corrects for several comparisons and for lost
-- samples; the figures are the same (`compare_paired` of tutti.tasks.scoring.statistics).
-- What counts, and its headline_score: the view `counted`. A task without a counted attempt in one of
-- the cells is in n_only_a or n_only_b.
-- Interval of the difference (b - a), 95 %, the first that applies:
-- * All differences are the same: there is no s, and a width of zero would claim certainty. At most
--   1 - 0.05^(1/n) of the tasks could differ ("rule of three"), each by at most the range of scores,
--   which is 1 or more.
-- * All are -1, 0 or 1, or fewer than ten tasks, and less than half, differ: Wald's after adding a
--   task that gains and one that loses as much as the most seen (Bonett and Price, 2012).
-- * Else the mean +- t(n - 1) s / sqrt(n).
-- p, two-sided: exact McNemar where all differences are -1, 0 or 1; the exact sign-flip test where at
-- most 14 tasks differ; the sign test where all differences are the same; else the paired t-test.
-- Each step follows from the one before alone: used laterally, for many pairs at once, DuckDB 2
-- loses the pair in a join of two steps.
create or replace macro compare(cell_a, cell_b) as table
with sides as (
    select 'a' as side, task_id, headline_score from counted where cell_id = cell_a
    union all select 'b', task_id, headline_score from counted where cell_id = cell_b
),
tasks_seen as (
    select task_id, avg(headline_score) filter (side = 'a') as score_a,
           avg(headline_score) filter (side = 'b') as score_b
    from sides group by task_id
),
pairs as (
    -- Thirds and tenths are not exact: what differs by rounding alone is the same difference.
    select list({'a': score_a, 'b': score_b})
               filter (score_a is not null and score_b is not null) as both_sides,
           coalesce(count(*) filter (score_b is null), 0) as n_only_a,
           coalesce(count(*) filter (score_a is null), 0) as n_only_b,
           12 - ceil(log10(greatest(
               max(abs(score_a)) filter (score_b is not null),
               max(abs(score_b)) filter (score_a is not null)))) as digits
    from tasks_seen
),
differences as (
    select *, coalesce(len(both_sides), 0)::double as n,
           list_transform(both_sides, lambda x:
               if(isfinite(digits) and digits <= 300, round(x.b - x.a, digits::int), x.b - x.a))
               as d,
           list_avg(list_transform(both_sides, lambda x: x.a)) as mean_a,
           list_avg(list_transform(both_sides, lambda x: x.b)) as mean_b
    from pairs
),
sums as (
    select *, list_min(d) as least_d, list_max(d) as most_d, list_avg(d) as mean_d,
           coalesce(len(list_filter(d, lambda x: x > 0)), 0) as ups,
           coalesce(len(list_filter(d, lambda x: x < 0)), 0) as downs,
           len(list_filter(d, lambda x: x not in (-1, 0, 1))) = 0 as is_binary,
           greatest(1, list_max(list_transform(both_sides, lambda x: greatest(x.a, x.b)))
                       - list_min(list_transform(both_sides, lambda x: least(x.a, x.b)))) as span
    from differences
),
figures as (
    select *, n >= 2 and least_d = most_d as alike, n - 1 as df, ups + downs as differ,
           if(n < 2, null, if(least_d = most_d, 0, list_stddev_samp(d)) / sqrt(n)) as standard_error,
           greatest(abs(least_d), abs(most_d)) as widest, 1 - pow(0.05, 1 / n) as unlike,
           1.959963984540054::double as z
    from sums
),
widths as (
    select *, if(standard_error > 0, abs(mean_d) / standard_error, null) as t,
           not alike and (is_binary or (differ < 10 and 2 * differ < n)) as is_added,
           list_sum(d) / (n + 2) as added_mean,
           sqrt((list_sum(list_transform(d, lambda x: x * x)) + 2 * widest * widest) / (n + 2)
                - pow(list_sum(d) / (n + 2), 2)) / sqrt(n + 2) * z as added_half
    from figures
),
interval95 as (
    select *, (df + t * t) / ((df + 1) * (t + 1)) as scale,
           case when n < 2 then null when alike then mean_d - unlike * (span + mean_d)
                when is_added then added_mean - added_half
                else mean_d - t_975(df) * standard_error end as ci_low,
           case when n < 2 then null when alike then mean_d + unlike * (span - mean_d)
                when is_added then added_mean + added_half
                else mean_d + t_975(df) * standard_error end as ci_high,
           case when n < 2 then '' when is_binary then 'exact McNemar'
                when differ <= 14 then 'exact sign-flip'
                when alike then 'sign test' else 'paired t-test' end as test,
           list_filter(d, lambda x: x != 0) as unequal
    from widths
),
tested as (
    select *, case test when '' then null
        when 'exact sign-flip' then
            -- The share of the 2^m patterns of signs whose sum is as far from 0 as the one seen.
            list_avg(list_transform(range((1 << if(differ <= 14, differ, 0))::bigint), lambda i:
                (abs(coalesce(list_sum(list_transform(unequal, lambda x, j:
                     if((i >> (j - 1)) & 1 = 1, x, -x))), 0))
                 >= abs(list_sum(d))
                    - 1e-9 * list_sum(list_transform(d, lambda x: abs(x))))::int))
        when 'paired t-test' then
            -- Both tails of Student's density, by the midpoint rule on x = t + scale * y / (1 - y) for
            -- 0 < y < 1; the scale is about the length over which the density falls at t.
            least(1, 2 * list_sum(list_transform(
                list_transform(range(5000), lambda k: (k + 0.5) / 5000), lambda y:
                exp(lgamma((df + 1) / 2) - lgamma(df / 2) - ln(df * pi()) / 2
                    - (df + 1) / 2 * ln(1 + pow(t + scale * y / (1 - y), 2) / df))
                * scale / ((1 - y) * (1 - y) * 5000))))
        else
            -- P(at most as many as the rarer direction), each direction as likely as the other.
            least(1, 2 * list_sum(list_transform(range(0, least(ups, downs) + 1), lambda k:
                exp(lgamma(differ + 1) - lgamma(k + 1) - lgamma(differ - k + 1)
                    - differ * ln(2)))))
        end as p
    from interval95
)
select n::bigint as n, n_only_a, n_only_b, mean_a, mean_b, mean_d as difference, standard_error,
       ci_low, ci_high, p, nullif(test, '') as test
from tested;
