"""Published figures of training steps, and what is known about the runs behind them.

A row has the planner's flags (planner.py) that all its runs share, and the published figures. What a facet of its setup
(comparison.py) does not say, `SETUP` of its table does.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    flags: dict
    published: dict
    setup: dict = dataclasses.field(default_factory=dict)


def gpt(heads, hidden, layers, tp, pp, gpus, batch, **others):
    return {'model': 'gpt2', 'layers': layers, 'hidden': hidden, 'heads': heads, 'sequence': 2048, 'vocab': 51200,
            'precision': 'bf16', 'ranks': gpus, 'batch': batch, 'tp': tp, 'pp': pp, 'dp': gpus // tp // pp, 'cp': 1,
            'zero': 0, 'bucket': 1 << 28, **others}


# --- Megatron 2021: Narayanan et al., SC 2021, table 1 -------------------------------------------

MEGATRON_SETUP = {'machine': 'A100 80 GB', 'precision': 'fp16', 'recomputation': 'full', 'attention': 'in full',
                  'vocabulary': 51200, 'sums of gradients': 'after the backward pass',
                  'tensor-parallel messages': 'blocking',
                  'messages between stages': '1/t from each rank, gathered in the node',
                  'kernels': 'fused, Megatron', 'schedule': 'interleaved, chunks not given'}
# The schedules of a column, with the smallest number of chunks that divides the layers.
MEGATRON_CHUNKS = {'39.1B': 2, '145.6B': 2, '529.6B': 3}
MEGATRON_MICROBATCHES = (1, 2, 3, 4)


def megatron(name, teraflops, *sizes):
    flags = gpt(*sizes, recompute='full', **{'sequence-parallel': 'off'})
    alone = {'tensor-parallel messages': 'none'} if flags['tp'] == 1 else {}
    if flags['pp'] == 1:
        alone |= {'messages between stages': 'none', 'schedule': 'no pipeline'}
    return Row(name, flags, {'teraflops': teraflops}, alone)


MEGATRON = (megatron('1.7B', 137, 24, 2304, 24, 1, 1, 32, 512),
            megatron('7.5B', 142, 32, 4096, 36, 4, 1, 128, 512),
            megatron('39.1B', 138, 64, 8192, 48, 8, 2, 512, 1536),
            megatron('145.6B', 148, 96, 12288, 80, 8, 8, 1536, 2304),
            megatron('529.6B', 163, 128, 20480, 105, 8, 35, 2520, 2520))

# --- Korthikanti et al., MLSys 2023, table 5 -----------------------------------------------------

# The table compares full recomputation, without sequence parallelism, with both techniques of the paper. The 175B and
# the 530B model have 3 chunks per rank. (The times of all eight rows are also in calculon-ai/calculon,
# calculon/llm/validation.py.)
KORTHIKANTI_SETUP = {'machine': 'A100 80 GB', 'precision': 'fp16', 'attention': 'in full', 'vocabulary': 51200,
                     'sums of gradients': 'none', 'tensor-parallel messages': 'blocking', 'kernels': 'fused, Megatron'}


def korthikanti(name, recompute, seconds, sizes, chunks=1, mfu=None, hfu=None):
    selective = recompute == 'selective'
    flags = gpt(*sizes, microbatch=4 if name == '22B' else 1, recompute=recompute,
                schedule='interleaved' if chunks > 1 else '1f1b', **({'chunks': chunks} if chunks > 1 else {}),
                **{'sequence-parallel': 'on' if selective else 'off'})
    stages = ('none' if flags['pp'] == 1 else
              '1/t from each rank' if selective else '1/t from each rank, gathered in the node')
    schedule = 'no pipeline' if flags['pp'] == 1 else f'interleaved, {chunks} chunks' if chunks > 1 else '1F1B'
    return Row(name, flags, {'seconds': seconds, 'mfu': mfu, 'hfu': hfu},
               {'recomputation': recompute, 'messages between stages': stages, 'schedule': schedule})


SIZES = {'22B': (64, 6144, 48, 8, 1, 8, 4), '175B': (96, 12288, 96, 8, 8, 64, 64),
         '530B': (128, 20480, 105, 8, 35, 280, 280), '1T': (160, 25600, 128, 8, 64, 512, 512)}
KORTHIKANTI = (korthikanti('22B', 'selective', 1.10, SIZES['22B'], mfu=41.5, hfu=43.7),
               korthikanti('175B', 'selective', 13.75, SIZES['175B'], chunks=3),
               korthikanti('530B', 'selective', 37.83, SIZES['530B'], chunks=3, mfu=56.0, hfu=57.0),
               korthikanti('1T', 'selective', 71.49, SIZES['1T']),
               korthikanti('22B', 'full', 1.42, SIZES['22B']),
               korthikanti('175B', 'full', 18.13, SIZES['175B'], chunks=3),
               korthikanti('530B', 'full', 49.05, SIZES['530B'], chunks=3),
               korthikanti('1T', 'full', 94.42, SIZES['1T']))

# --- Llama 3: Grattafiori et al. 2024, table 4 ---------------------------------------------------

# Flash attention recomputes the probabilities, and nothing else is recomputed: Lockstep's selective recomputation.
LLAMA_SETUP = {'machine': 'H100 80 GB, 700 W', 'precision': 'bf16', 'recomputation': 'selective', 'attention': 'half',
               'vocabulary': 128256, 'sums of gradients': 'by FSDP', 'tensor-parallel messages': 'blocking',
               'messages between stages': '1/t from each rank', 'kernels': 'fused, flash attention',
               'schedule': 'interleaved, chunks not given', 'blocks per stage': 'one less on the first and the last'}
LLAMA_CHUNKS = (2, 4)


def llama(model, gpus, tp, cp, pp, dp, sequence, per_replica, **others):
    return {'model': model, 'sequence': sequence, 'vocab': 128256, 'precision': 'bf16', 'ranks': gpus,
            'batch': dp * per_replica, 'tp': tp, 'cp': cp, 'pp': pp, 'dp': dp, 'microbatch': 1,
            'recompute': 'selective', 'sequence-parallel': 'on', **others}


def llama_405b(teraflops, *sizes):
    flags = llama('llama3-405b', *sizes, zero=1)
    return Row(f"{flags['ranks']:,} GPUs, {flags['sequence']:,} tokens", flags, {'teraflops': teraflops},
               {'context parallelism': 'none' if flags['cp'] == 1 else 'gathers keys and values'})


LLAMA = (llama_405b(430, 8192, 8, 1, 16, 64, 8192, 32),
         llama_405b(400, 16384, 8, 1, 16, 128, 8192, 16),
         llama_405b(380, 16384, 8, 16, 16, 8, 131072, 16))

# --- torchtitan: pytorch/torchtitan, benchmarks/llama3_h100_202412_torchtitan.md -----------------

TORCHTITAN_SETUP = {'machine': 'H100 96 GB, 500 W', 'vocabulary': 128256}


def torchtitan(name, tokens_per_second, flags, precision, recomputation, kernels='compiled', messages='none'):
    return Row(name, flags, {'tokens_per_second': tokens_per_second},
               {'precision': precision, 'recomputation': recomputation, 'kernels': kernels,
                'tensor-parallel messages': messages})


FSDP_8B = llama('llama3-8b', 8, 1, 1, 1, 8, 8192, 2, zero=3, schedule='1f1b')
FSDP_TP_70B = llama('llama3-70b', 256, 8, 1, 1, 32, 8192, 16, zero=3, schedule='1f1b', recompute='full')
FSDP_TP_PP_405B = llama('llama3-405b', 512, 8, 1, 8, 8, 8192, 32, zero=1, recompute='full')
# Of a selectively recomputed block, that version of torchtitan keeps every second product.
TORCHTITAN = (torchtitan('8B, FSDP 8', 5762, FSDP_8B, 'bf16', 'every second product', 'eager'),
              torchtitan('8B, FSDP 8, compiled', 6667, FSDP_8B, 'bf16', 'every second product'),
              *(torchtitan(f'8B, FSDP {8 // cp}, CP {cp}', figure,
                           llama('llama3-8b', 8, 1, cp, 1, 8 // cp, 32768 * cp, 1, zero=3, schedule='1f1b',
                                 recompute='full'), 'fp8', 'full')
                for cp, figure in ((1, 3890), (2, 2540), (4, 1071), (8, 548))),
              torchtitan('70B, FSDP 32, TP 8', 829, FSDP_TP_70B, 'fp8', 'full', messages='blocking'),
              torchtitan('70B, the same, asynchronous TP', 876, FSDP_TP_70B, 'fp8', 'full', messages='asynchronous'),
              torchtitan('405B, FSDP 8, TP 8, PP 8, 1F1B', 100, {**FSDP_TP_PP_405B, 'schedule': '1f1b'}, 'fp8', 'full',
                         messages='asynchronous'),
              torchtitan('405B, the same, interleaved', 128,
                         {**FSDP_TP_PP_405B, 'schedule': 'interleaved', 'chunks': 2}, 'fp8', 'full',
                         messages='asynchronous'))
