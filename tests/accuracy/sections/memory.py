"""Memory: published bytes per GPU beside those of the planner's dry runs."""

import planner
import published_runs
from tables import bullets, paragraph, table

STATES = ('parameters', 'gradients', 'optimizer')

# Rajbhandari et al., SC 2020, table 1: GB per GPU of the model states of 7.5B parameters, by ranks, for stages 1 to 3.
ZERO = {1: ('120', '120', '120'), 4: ('52.5', '41.3', '30'), 16: ('35.6', '21.6', '7.5'), 64: ('31.4', '16.6', '1.88'),
        256: ('30.4', '15.4', '0.47'), 1024: ('30.1', '15.1', '0.12')}
# The 7.5B model of Megatron (2021), with the vocabulary that leaves it 7.501B parameters.
ZERO_VOCABULARY = 29696


def gigabytes(of):
    return sum(of[each] for each in STATES) / 1e9


def zero(plans):
    wanted = [(ranks, stage) for ranks in ZERO for stage in (1, 2, 3)]
    flags = [{**published_runs.gpt(32, 4096, 36, 1, 1, ranks, ranks), 'vocab': ZERO_VOCABULARY, 'zero': stage,
              'microbatch': 1, 'schedule': '1f1b', 'recompute': 'full'} for ranks, stage in wanted]
    found = dict(zip(wanted, plans.plans(flags, 'a100')))
    rows, right = [], 0
    for ranks, published in ZERO.items():
        cells = [str(ranks)]
        for stage, printed in enumerate(published, 1):
            rank = found[ranks, stage]['ranks'][0]
            digits = len(printed.partition('.')[2])
            states = f"{gigabytes(rank['states']):.{digits}f}"
            right += states == printed
            cells += [printed, states, f"{gigabytes(rank['memory']):.{max(digits, 1)}f}"]
        rows.append(cells)
    parameters = found[1, 1]['task']['parameters'] / 1e9
    head = ['ranks'] + [f'stage {stage}, {what}' for stage in (1, 2, 3) for what in ('published', 'here', 'peak')]
    return ['### ZeRO', '', *paragraph(f"""
        GB per GPU of parameters, gradients and optimizer states in mixed precision, by ranks. Published: Rajbhandari et
        al., SC 2020, Table 1, 7.5B parameters. Here: a GPT of {parameters:.3f}B parameters (36 layers of width 4096,
        vocabulary {ZERO_VOCABULARY:,}), whose states `zero_states` (lessons/03_zero_1/zero_memory.h) computes from the
        tensors that the plan places on a rank. Peak: the most that a dry run of the step allocates for these three.
        With stage 1, the bytes are the same. Stages 2 and 3 need temporary buffers in addition, which the publication
        leaves out: the gradients of a bucket, and the gathered parameters in use."""), *table(head, rows),
            *bullets([f'{right} of 18 figures agree to the printed digit.'])]


BUDGET = {'model': 'gpt3-175b', 'vocab': 51200, 'precision': 'bf16', 'ranks': 1024, 'tp': 8, 'pp': 16, 'dp': 8, 'cp': 1,
          'zero': 0, 'microbatch': 1, 'schedule': '1f1b', 'recompute': 'full', 'sequence-parallel': 'on'}
BUDGET_GB = {'parameters': ('2.7', 2), 'gradients': ('2.7', 2), 'optimizer': ('16.4', 12)}  # bytes per parameter
BUBBLES = {64: '65', 1536: '7.2'}


def budget(plans):
    found = dict(zip(BUBBLES, plans.plans([{**BUDGET, 'batch': batch} for batch in BUBBLES], 'a100')))
    stages = found[64]['ranks'][::BUDGET['tp']]
    first, middle, last = stages[0], stages[1], stages[-1]
    rows = [[what, printed, f"{size * found[64]['task']['parameters'] / BUDGET['tp'] / BUDGET['pp'] / 1e9:.1f}",
             *(f"{rank['memory'][what] / 1e9:.1f}" for rank in (middle, first, last))]
            for what, (printed, size) in BUDGET_GB.items()]
    bubbles = []
    for batch, printed in BUBBLES.items():
        plan = found[batch]
        m, p = plan['microbatches'], plan['pp']
        window = plan['step_seconds'] - plan['parts']['optimizer'] - plan['parts']['exposed']['dp']
        bubbles.append([str(batch), str(m), printed, f'{100 * (p - 1) / (m + p - 1):.1f}',
                        f"{100 * plan['parts']['bubble'] / window:.1f}"])
    return ['### 175B on 1,024 GPUs', '', *paragraph("""
        GB per GPU with TP 8, PP 16 and DP 8 on A100s of 80 GB: a worked budget beside the dry run of GPT-3. Ψ/128: the
        model's parameters, evenly divided. The first stage also holds the token table, and the last one the head."""),
            *table(['', 'budget', 'Ψ/128', 'a middle stage', 'the first', 'the last'], rows), *paragraph("""
        The plan fits in memory; whether it is fast enough depends on the batch. The table shows the bubble in % of the
        pipeline's window, without the sums of gradients and the optimizer: as published, by the formula (p - 1)/(m + p
        - 1), and in the planner's replay, on the slowest rank. In the replay, the last stage takes longer than the
        others because it also computes the head, and the others wait for it in every microbatch; the formula ignores
        this."""),
            *table(['batch', 'm', 'published', 'formula', 'replayed'], bubbles)]


def section(build, jobs):
    plans = planner.Planner(build, jobs)
    return ['## Memory', '', *zero(plans), *budget(plans)]
