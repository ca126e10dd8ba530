"""Published runs: the planner beside single figures of other papers, if their configurations can be matched."""

import itertools

import comparison
import planner
import published_runs
from tables import bullets, paragraph, percent, table

PEAK = {'a100': 312, 'h100': 989}   # TFLOP/s, dense


class Runs:
    """The runs of a table: of each row that may be compared, the plans of some variants of its flags."""

    def __init__(self, plans, cluster, setup, rows, variants_of):
        self.rows = rows
        self.found = {}   # by row, the differences of its variants
        wanted = []
        for row in rows:
            published = {**setup, **row.setup}
            variants = [(row, label, {**row.flags, **flags}) for label, flags in variants_of(row)]
            self.found[row.name, row.flags['recompute']] = found = [
                each for _, _, flags in variants
                for each in comparison.differences(published, comparison.modelled_setup(cluster, flags, published))]
            if not any(each.refuses for each in found):
                wanted += variants
        self.plans = list(zip(wanted, plans.plans([flags for _, _, flags in wanted], cluster)))

    def of(self, row):
        """Returns (label, flags, plan) of each variant, or nothing if the row is refused."""
        return [(label, flags, plan) for (of, label, flags), plan in self.plans if of is row]

    def refused(self, row):
        """Returns the facets that refuse a row."""
        return list(dict.fromkeys(each.facet for each in self.found[row.name, row.flags['recompute']] if each.refuses))

    def differences(self):
        """Returns the lines about all differences: those of the rows that are compared, then those that refuse one."""
        modelled = {}
        for found in self.found.values():
            for each in found:
                if each.refuses or not any(other.refuses for other in found):
                    of = modelled.setdefault((each.refuses, each.facet, each.published, each.why), {})
                    of[str(each.modelled)] = True
        lines = [f"{facet}: {published}; here {'; or '.join(of)} ({'*refused*: ' if refuses else ''}{why})."
                 for (refuses, facet, published, why), of in sorted(modelled.items(), key=lambda item: item[0][0])]
        return ['Differences:', '', *bullets(lines)]


def teraflops(plan, counted):
    """Returns TFLOP/s per GPU, with the FLOPs that the publication counts."""
    task = plan['task']
    flops = task['flops_per_token'][counted] * task['batch'] * task['sequence']
    return flops / task['ranks'] / plan['step_seconds'] / 1e12


def in_order(pairs, apart=1.1):
    """Returns how many pairs of (published, predicted) are in order, of those published more than 10 % apart."""
    far = [(a, b) for a, b in itertools.combinations(pairs, 2) if max(a[0], b[0]) > apart * min(a[0], b[0])]
    return f'{sum((a[0] < b[0]) == (a[1] < b[1]) for a, b in far)} of {len(far)}'


def verdict(errors, bound):
    """Returns whether errors keep within a bound, both in percent."""
    misses = sum(abs(error) > bound / 100 for error in errors)
    mean = 100 * sum(map(abs, errors)) / len(errors)
    return f"{len(errors) - misses} of {len(errors)} rows within {bound} %, mean error {mean:.1f} %"


# --- Megatron ------------------------------------------------------------------------------------

def megatron_variants(row):
    schedules = [('1F1B', {'schedule': '1f1b'})]
    if chunks := published_runs.MEGATRON_CHUNKS.get(row.name):
        schedules.append(('interleaved', {'schedule': 'interleaved', 'chunks': chunks}))
    return [(label, {**flags, 'microbatch': microbatch}) for label, flags in schedules
            for microbatch in published_runs.MEGATRON_MICROBATCHES
            if row.flags['batch'] % (row.flags['dp'] * microbatch) == 0]


def megatron(plans):
    runs = Runs(plans, 'a100', published_runs.MEGATRON_SETUP, published_runs.MEGATRON, megatron_variants)
    rows, pairs = [], {'1F1B': [], 'interleaved': []}
    for row in runs.rows:
        published = row.published['teraflops']
        cells, best = [row.name, str(published)], {}
        for label, flags, plan in runs.of(row):
            found = teraflops(plan, 'published_full')
            if found > best.get(label, (0, ''))[0]:
                chunks = f", v {flags['chunks']}" if 'chunks' in flags else ''
                best[label] = found, f"b {flags['microbatch']}{chunks}"
        for label in pairs:
            if label in best:
                value, how = best[label]
                cells += [f'{value:.1f} ({how})', percent(value / published - 1)]
            else:
                cells += ['', '']
            pairs[label].append((published, best.get(label, best['1F1B'])[0]))
        rows.append(cells)
    lines = ['### Megatron (2021), GPT on A100', '', *paragraph("""
        TFLOP/s per GPU, with full recomputation counted: 96 B s L h² (1 + s/(6h) + V/(16 L h)) per step. Published:
        Narayanan et al., SC 2021, Table 1. It states neither the microbatch b nor which rows use the interleaved
        schedule. The table shows the best b from 1 to 4 and, for the interleaved schedule, the smallest number of
        chunks v that divides the layers.""")]
    lines += runs.differences()
    lines += table(['model', 'published', '1F1B', 'error', 'interleaved', 'error'], rows)
    for label, of in pairs.items():
        lines += bullets([f"{label}: {verdict([b / a - 1 for a, b in of], 15)}; pairs that differ by more than 10 %: "
                          f'{in_order(of)} in order.'])[:-1]
    lines += ['', *paragraph("""The predictions for the narrow models are too slow because of attention: its rate, 17.4
        TFLOP/s, is fitted to Megatron-DeepSpeed, and the narrower a model is, the larger attention's share of its
        FLOPs.""")]
    return lines


# --- Korthikanti ---------------------------------------------------------------------------------

def korthikanti(plans):
    runs = Runs(plans, 'a100', published_runs.KORTHIKANTI_SETUP, published_runs.KORTHIKANTI, lambda row: [('', {})])
    rows, errors = [], []
    for row in runs.rows:
        (_, _, plan), = runs.of(row)
        seconds = row.published['seconds']
        errors.append(plan['step_seconds'] / seconds - 1)
        cells = [row.name, row.flags['recompute'], f'{seconds:.2f}', f"{plan['step_seconds']:.2f}", percent(errors[-1])]
        for key, counted in (('mfu', 'published'), ('hfu', 'published_selective')):
            at_published = teraflops({**plan, 'step_seconds': seconds}, counted) / PEAK['a100']
            given = row.published[key]
            cells.append('' if given is None else f'{given} / {100 * at_published:.1f}')
        rows.append(cells)
    return ['### Selective recomputation (Korthikanti et al.), GPT on A100', '', *paragraph("""
        Seconds per step. Published: Korthikanti et al., MLSys 2023, Table 5. Selective recomputation is used with
        sequence parallelism, and full recomputation without it. The 175B and 530B models have 3 chunks per rank; the 1T
        model follows 1F1B. MFU and HFU in %: as published / computed from the published time by the formulas in
        `core/plan/flops.h` (bound: 0.5 points)."""), *runs.differences(),
            *table(['model', 'recomputation', 'published', 'predicted', 'error', 'MFU', 'HFU'], rows),
            *bullets([f'{verdict(errors, 8)}. (Calculon: 3.65 % on the same rows.)'])]


# --- Llama 3 -------------------------------------------------------------------------------------

def llama(plans):
    runs = Runs(plans, 'h100', published_runs.LLAMA_SETUP, published_runs.LLAMA,
                lambda row: [(chunks, {'schedule': 'interleaved', 'chunks': chunks})
                             for chunks in published_runs.LLAMA_CHUNKS])
    rows, errors = [], {chunks: [] for chunks in published_runs.LLAMA_CHUNKS}
    for row in runs.rows:
        published = row.published['teraflops']
        cells = [row.name, str(published)]
        for chunks, _, plan in runs.of(row):
            found = teraflops(plan, 'computed')
            errors[chunks].append(found / published - 1)
            cells += [f'{found:.1f}', percent(found / published - 1)]
        rows.append(cells)
    lines = ['### Llama 3 405B on H100', '', *paragraph("""
        TFLOP/s per GPU. Published: Grattafiori et al. 2024, Table 4. It does not say how it counts FLOPs; we assume the
        model's own, with only the half of attention that a causal mask leaves. (With attention in full, a sequence of
        131,072 tokens would count 1.4 times as much.) Nor does it give the chunks per rank v; its schedule is
        interleaved. Memory is not compared.""")]
    lines += runs.differences()
    lines += table(['', 'published', *(cell for chunks in errors for cell in (f'v = {chunks}', 'error'))], rows)
    lines += bullets([f'v = {chunks}: {verdict(of, 15)}.' for chunks, of in errors.items()])
    return lines + paragraph("""With v = 2, all rows are within 15 %. But from 32 to 16 sequences per replica, the
        published figures fall by only 7 %, as with a small bubble, so v is probably larger; and with v = 4, the first
        row is a miss. The cause is then the rate of matrix products: the preset uses the best rate measured on a single
        card, which thousands of cards do not sustain.""")


# --- torchtitan ----------------------------------------------------------------------------------

def torchtitan(plans):
    runs = Runs(plans, 'h100', published_runs.TORCHTITAN_SETUP, published_runs.TORCHTITAN, lambda row: [('', {})])
    rows = []
    for row in runs.rows:
        published = row.published['tokens_per_second']
        cell = 'refused: ' + ', '.join(runs.refused(row))
        for _, _, plan in runs.of(row):
            found = row.flags['batch'] * row.flags['sequence'] / row.flags['ranks'] / plan['step_seconds']
            cell = f'{found:,.0f} ({percent(found / published - 1)})'
        rows.append([row.name, f'{published:,}', cell])
    return ['### torchtitan, Llama 3.1 on H100', '', *paragraph("""
        Tokens/s per GPU. Published: pytorch/torchtitan, benchmarks/llama3_h100_202412_torchtitan.md. Its cards have 2.4
        TB/s of memory bandwidth instead of 3.35, and are limited to 500 W instead of 700. Their rates of matrix
        products are not published, so no row can be compared with the preset `h100`. Most rows have further differences
        that no flag can match."""), *runs.differences(), *table(['', 'published', 'predicted'], rows)]


def section(build, jobs):
    plans = planner.Planner(build, jobs)
    lines = ['## Published runs', '', *paragraph("""
        This section compares single figures of other publications with the planner's. The presets are used as they are:
        none of their constants is fitted to these rows. Each table states the known facts about its runs
        (`published_runs.py`): recomputation, precision, attention in full or in half, overlap, vocabulary, kernels and
        more. The flags match as much of this as they can. A remaining difference is listed if there is a reason why the
        figures can still be compared; otherwise, the row is refused (`comparison.py`).""")]
    return [*lines, *megatron(plans), *korthikanti(plans), *llama(plans), *torchtitan(plans)]
