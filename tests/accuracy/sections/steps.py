"""Training steps: the planner beside measured steps of many configurations of the same model."""

import planner
import step_times
from tables import bullets, paragraph, percent, regimes, table


def regime(row):
    if row['tp'] > 8:
        return 'TP 16, across nodes'
    if row['pp'] > 1:
        return 'TP within a node, with a pipeline'
    return 'TP within a node, no pipeline' if row['tp'] > 1 else 'data parallelism only'


def layout(row):
    return f"TP {row['tp']:.0f}, DP {row['dp']:.0f}, PP {row['pp']:.0f}, microbatch {row['microbatch_size']:.0f}"


def ranking(by_size):
    """Returns the table of how well the planner ranks the rows of each size."""
    lines = []
    for billions, rows, times in by_size:
        first, best = step_times.first_and_best(rows, times)
        right, pairs = step_times.pairs_in_order(rows, times)
        kept = [row['step_ms'] / ms for row, ms in zip(rows, times) if not row['outlier']]
        lines.append([f'{billions}B', str(len(rows)), layout(first),
                      f"{first['step_ms']:.1f}", f"{best['step_ms']:.1f}", percent(first['step_ms'] / best['step_ms'] - 1), f'{right} of {pairs}',
                      f'{100 * step_times.mean_error(kept):.1f} %'])
    return table(['', 'rows', 'ranked first', 'it took', 'the best took', 'slower by', 'pairs in order', 'mean error'],
                 lines)


def narrow_tp(rows, times):
    """Returns the paragraph about the 39.1B rows with TP 2."""
    late = [row['step_ms'] / ms - 1 for row, ms in zip(rows, times) if row['tp'] == 2]
    right, pairs = step_times.pairs_in_order(*zip(*((row, ms) for row, ms in zip(rows, times) if row['tp'] != 2)))
    deep = {row['tp']: row['step_ms'] for row in rows if (row['pp'], row['microbatch_size']) == (16, 3)}
    return paragraph(f"""The 39.1B rows with TP 2 lower these results most: they take {100 * min(late):.0f} to
        {100 * max(late):.0f} % longer than predicted, and without them {right} of {pairs} pairs are in order. Other
        rows contradict them, though not by the rule above: with PP 16 and microbatches of 3, TP 1 has the larger
        bubble, yet takes {deep[1]:,.0f} ms instead of the {deep[2]:,.0f} ms with TP 2. The rows with TP 2 count
        nevertheless.""")


def section(build, jobs):
    lines = ['## Training steps', '', *paragraph("""
        Step times in ms of GPT models under Megatron-DeepSpeed on A100 GPUs, 8 to a node: the validation data of vTrain
        (Bang et al., MICRO 2024; repository VIA-Research/vTrain, data/ground_truth_multi.csv, MIT licence). The planner
        of lesson 17 evaluates each row with the preset `a100`; its times are those of lesson 16 on the meta device, as
        a test checks. Three constants of the preset (for launches, attention and NVLink's bandwidth) are fitted to the
        3.6B rows with TP up to 8 (`fit_steps.py`). No row of another size is fitted.""")]
    lines += paragraph(f"""
        A row is an outlier if it takes at least {step_times.CONTRADICTED} times as long, without its bubble, as a row
        of the same layout with half to twice its microbatch. The outliers, three 3.6B rows, are neither fitted nor
        counted in the mean errors.""")
    rows = step_times.measured(step_times.SIZES)
    times = step_times.times(planner.Planner(build, jobs), rows, 'a100')
    by_size = []
    for billions in step_times.SIZES:
        of = [(row, ms) for row, ms in zip(rows, times) if row['parameters_billion'] == billions]
        by_size.append((billions, *zip(*of)))
    lines += paragraph("""Does the planner find the fastest configuration? Among the rows of each size, how much slower
        than the best is the row that it ranks first (bound: 5 %), and how many pairs of rows that differ by more than
        10 % does it put in the right order?""")
    lines += ranking(by_size)
    ratios = [row['step_ms'] / ms for row, ms in zip(rows, times) if not row['outlier']]
    lines += paragraph(f"""The mean error of all {len(ratios)} rows that are not outliers is
        {100 * step_times.mean_error(ratios):.1f} %.""")
    lines += narrow_tp(*by_size[step_times.SIZES.index(39.1)][1:])
    entries = [(f"{row['parameters_billion']:g}B, {regime(row)}", step_times.use_of(row), ms / row['step_ms'] - 1)
               for row, ms in zip(rows, times)]
    lines += ['Errors by regime:', '', *regimes([each for each in entries if each[1] != 'outlier'])]
    lines += paragraph('Bounds on the 3.6B and the 18.4B rows:')
    lines += bullets([f'{line[0].upper()}{line[1:]}.' for line in step_times.verdict(rows, times).splitlines()])
    for billions, of, modelled in by_size:
        lines += [f"### {billions}B on {of[0]['gpus']:.0f} GPUs, batch {of[0]['global_batch']:.0f}", '']
        lines += table(['TP', 'DP', 'PP', 'microbatch', 'published', 'predicted', 'error', 'use'],
                       [[f"{row[key]:.0f}" for key in ('tp', 'dp', 'pp', 'microbatch_size')]
                        + [f"{row['step_ms']:.1f}", f'{ms:.1f}', percent(ms / row['step_ms'] - 1),
                           step_times.use_of(row)]
                        for row, ms in zip(of, modelled)])
    return lines
