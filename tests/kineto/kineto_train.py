"""Training steps for kineto_job.Job: a transformer on dp x pp x tp ranks, and one rank's part of DeepSeek's DualPipe."""

from kineto_job import Group, Job

COMPUTE, TP, PP_FORWARD, PP_BACKWARD, DP = 7, 20, 24, 26, 30      # streams
GEMM = 'sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas'
NORM = 'void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>(int, float, c10::BFloat16*)'
FLASH = 'void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4>, false, true>(Flash_fwd_params)'
FLASH_B = 'void flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<128, 64, 128, 8> >(Flash_bwd_params)'
GELU = 'void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl, std::array<char*, 2ul> >(int)'
ADAM = 'void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4> >(TensorListMetadata<4>)'
FORWARD = [(NORM, 6), (GEMM, 42), (FLASH, 55), (GEMM, 31), None, (NORM, 6), (GEMM, 61), (GELU, 9), (GEMM, 58), None]
BACKWARD = [(GEMM, 118), (GELU, 12), (GEMM, 122), (NORM, 9), None, (GEMM, 62), (FLASH_B, 131), (GEMM, 80), (NORM, 9), None]
NAMES = {
    '2023': {'allreduce': 'ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevComm*, unsigned long, ncclWork*)',
             '_allgather_base': 'ncclDevKernel_AllGather_RING_LL(ncclDevComm*, unsigned long, ncclWork*)',
             '_reduce_scatter_base': 'ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)',
             'send': 'ncclDevKernel_SendRecv(ncclDevComm*, unsigned long, ncclWork*)'},
    '2026': {'allreduce': 'ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)',
             '_allgather_base': 'ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)',
             '_reduce_scatter_base': 'ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)',
             'send': 'ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)'},
}
NAMES['2024'] = NAMES['2026']
NAMES['bare'] = {'allreduce': 'ncclKernel_AllReduce_RING_LL_Sum_half(ncclDevComm*, unsigned long, ncclWork*)',
                 '_allgather_base': 'ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)',
                 '_reduce_scatter_base': 'ncclKernel_ReduceScatter_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)',
                 'send': 'ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)'}


class Training:
    """1F1B on dp x pp x tp ranks (rank = (dp * PP + pp) * TP + tp) with a distributed optimizer; `slow`: {rank: factor}."""

    def __init__(self, dp=2, pp=2, tp=2, microbatches=4, layers=2, steps=2, first_step=5, slow=None, style='2026', seed=0):
        self.sizes, self.microbatches, self.layers = (dp, pp, tp), microbatches, layers
        self.names, self.slow = NAMES[style], slow or {}
        self.job = Job(dp * pp * tp, seed)
        self.random = self.job.random
        self.forwards = [0] * self.job.ranks
        ranks = range(self.job.ranks)
        self.world = Group('0', 'default_pg', tuple(ranks))
        self.groups = {'dp': {}, 'pp': {}, 'tp': {}}
        for rank in ranks:
            d, p, t = self.place(rank)
            members = {'tp': [self.rank(d, p, i) for i in range(tp)], 'pp': [self.rank(d, i, t) for i in range(pp)],
                       'dp': [self.rank(i, p, t) for i in range(dp)]}
            for axis, group in members.items():
                # as with names chosen by users, all groups of an axis have the same name
                self.groups[axis].setdefault(tuple(group), Group(f'mesh_{axis}', f'mesh_{axis}', tuple(group)))
        for step in range(first_step, first_step + steps):
            for rank in ranks:
                self._step(rank, step)
        self.job.run()

    def place(self, rank):
        _, pp, tp = self.sizes
        return rank // (pp * tp), rank // tp % pp, rank % tp

    def rank(self, d, p, t):
        _, pp, tp = self.sizes
        return (d * pp + p) * tp + t

    def group(self, axis, rank):
        return next(group for ranks, group in self.groups[axis].items() if rank in ranks)

    def all_groups(self):
        return [self.world, *(group for axis in self.groups.values() for group in axis.values())]

    def _compute(self, rank, name, duration, needs=(), **more):
        noisy = duration * self.slow.get(rank, 1) * self.random.uniform(0.98, 1.04)
        return self.job.compute(rank, COMPUTE, name, noisy, needs, **more)

    def _call(self, rank, axis, stream, key, name, elements, duration, needs, members=None, dtype='BFloat16'):
        return self.job.collective(rank, stream, self.group(axis, rank), key, name, self.names[name], elements, duration,
                                   needs, dtype, members)

    def _layers(self, rank, step, microbatch, backward, needs):
        """Adds one pass through the rank's layers, and returns its last kernel."""
        last = list(needs)
        for layer in reversed(range(self.layers)) if backward else range(self.layers):
            for index, kernel in enumerate(BACKWARD if backward else FORWARD):
                if kernel is None:
                    if self.sizes[2] > 1:
                        key = (step, microbatch, backward, layer, index)
                        last = [self._call(rank, 'tp', TP, key, 'allreduce', 8 << 20, 28, last)]
                    continue
                number = ((step * 64 + microbatch) * 16 + layer) * 16 + (3 if backward else 1) + 1
                marks = {}
                if index == 1:
                    number = ((step * 64 + microbatch) * 16 + layer) + 1
                    marks = {'backward_of': number} if backward else {'forward_of': number}
                last = [self._compute(rank, *kernel, last, **marks)]
        return last[0]

    def _step(self, rank, step):
        d, p, t = self.place(rank)
        pp, job = self.sizes[1], self.job
        job.open(rank, f'ProfilerStep#{step}')
        if p == 0:
            job.compute(rank, COMPUTE, 'Memcpy HtoD (Pinned -> Device)', 14, category='gpu_memcpy', bytes=131072)
        job.compute(rank, COMPUTE, 'Memset (Device)', 3, category='gpu_memset', bytes=4194304)
        warmup = min(pp - 1 - p, self.microbatches)
        order = [('F', i) for i in range(warmup)]
        for i in range(self.microbatches - warmup):
            order += [('F', warmup + i), ('B', i)]
        order += [('B', i) for i in range(self.microbatches - warmup, self.microbatches)]
        buckets = []
        for kind, m in order:
            job.open(rank, f'PP:{p}{kind}{m}')
            needs = []
            before, after = (p - 1, p + 1) if kind == 'F' else (p + 1, p - 1)
            stream = PP_FORWARD if kind == 'F' else PP_BACKWARD
            if 0 <= before < pp:
                pair = (self.rank(d, before, t), rank)
                needs = [self._call(rank, 'pp', stream, (step, kind, m, pair), 'send', 4 << 20, 34, (), pair)]
            last = self._layers(rank, step, m, kind == 'B', needs)
            if 0 <= after < pp:
                pair = (rank, self.rank(d, after, t))
                self._call(rank, 'pp', stream, (step, kind, m, pair), 'send', 4 << 20, 34, [last], pair)
            if kind == 'B' and m == self.microbatches - 1 and self.sizes[0] > 1:
                buckets = [self._call(rank, 'dp', DP, (step, 'grads', i), '_reduce_scatter_base', 12 << 20, 190, [last],
                                      dtype='Float') for i in range(2)]
            job.close(rank)
        job.open(rank, 'Optimizer.step#AdamW.step')
        update = self._compute(rank, ADAM, 44, buckets, host_op='aten::_fused_adamw_')
        if self.sizes[0] > 1:
            self._call(rank, 'dp', DP, (step, 'parameters'), '_allgather_base', 6 << 20, 120, [update])
        job.close(rank)
        job.sync(rank)
        job.close(rank)


def dual_pipe(layers=4, seed=1):
    """One rank's forward chunk overlapped with a backward chunk, as in DeepSeek's profile, with DeepEP's kernels."""
    job = Job(1, seed)
    compute, communication = 7, 27
    parts = [('combine(B)', communication, 'void deep_ep::internode::combine<nv_bfloat16>(int4*, float*, bool const*)', 610),
             ('attn(F)', compute, FLASH, 700), ('mlp(B)', compute, GEMM, 830),
             ('dispatch(F)', communication, 'void deep_ep::internode::dispatch<false, 8>(int4*, float*, long*)', 480),
             ('dispatch(B)', communication, 'void deep_ep::internode::dispatch<true, 8>(int4*, float*, long*)', 470),
             ('mlp(W)', compute, GEMM, 310), ('mlp(F)', compute, GEMM, 720), ('attn(B)', compute, FLASH_B, 1150),
             ('attn(W)', compute, GEMM, 110),
             ('combine(F)', communication, 'void deep_ep::internode::combine<nv_bfloat16>(int4*, float*, bool const*)', 600)]
    job.open(0, 'ProfilerStep#1')
    job.open(0, '1F1B')
    last = {}
    for _ in range(layers):
        for name, stream, kernel, duration in parts:
            job.open(0, name)
            direction = name[-2]
            needs = [last[direction]] if direction in last else []
            last[direction] = job.compute(0, stream, kernel, duration * job.random.uniform(0.97, 1.05), needs,
                                          host_op='PassBackward' if direction != 'F' else 'aten::mm')
            job.close(0)
    job.close(0)
    job.close(0)
    job.sync(0)
    job.run()
    return job
