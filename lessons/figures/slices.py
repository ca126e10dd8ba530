"""Which rank holds which part of each matrix under tensor parallelism, from the slices in each rank's trace."""

from svg import DIM, INK, LINE, PALE, Drawing

RANKS = ('#3f7fbf', '#4f9f5f', '#d08a2b', '#a0589a')
# The forward pass: operators, and parameters with their caption.
PATH = ('wte.weight', 'g', 'h.0.ln_1.weight', 'f', 'h.0.attn.c_attn.weight', 'h.0.attn.c_proj.weight', 'g',
        'h.0.ln_2.weight', 'f', 'h.0.mlp.c_fc.weight', 'h.0.mlp.c_proj.weight', 'g', 'ln_f.weight', 'f',
        'lm_head.weight')
SCALE = 0.58  # pixels per element
MIDDLE, BELOW = 106, 198  # of the matrices; of their captions


def draw(runs):
    run = runs.run('06_tensor_parallel', '--steps', '1')
    held = [slices_of(trace) for trace in run.traces]
    sizes = [size(held[0][name]) if name not in 'fg' else (22, 22) for name in PATH]
    gap, left = 20, 26
    width = left + sum(w for w, _ in sizes) + gap * (len(PATH) - 1) + 26
    out = Drawing(round(width), 264, 'Which rank holds which part of each matrix')
    out.line(left, MIDDLE, width - 26, MIDDLE, LINE, 1.5)

    x = left
    for name, (w, h) in zip(PATH, sizes):
        y = MIDDLE - h / 2
        if name in 'fg':
            out.rect(x, y, w, h, '#ffffff', INK, radius=11)
            out.text(x + w / 2, MIDDLE + 5, name, 14, INK, 'middle', bold=True)
        else:
            parts = [slices[name] for slices in held]
            draw_parameter(out, x, y, w, h, parts)
            caption(out, x + w / 2, name, parts[0]['whole'])
        x += w + gap

    y, x = 236, left
    for rank, colour in enumerate(RANKS[:len(held)]):
        out.rect(x, y, 14, 14, colour)
        out.text(x + 20, y + 12, f'rank {rank}', 12, DIM)
        x += 74
    out.rect(x, y, 14, 14, PALE, LINE)
    out.text(x + 20, y + 12, 'every rank', 12, DIM)
    return out.finish()


def slices_of(trace):
    """The parts of the first block, the embedding and the head, by name: the whole shape and the boxes."""
    lists = next(event['args'] for event in trace if event['ph'] == 'M' and event['name'] == 'slices')
    slices = {}
    for each in lists['tensors']:
        axes = len(each['shape'])
        name = each['name'].removeprefix('transformer.').replace('*', '0')
        slices[name] = {'whole': each['shape'],
                        'boxes': [{'begin': box[:axes], 'extent': box[axes:]} for box in each['boxes']]}
    return slices


def size(part):
    """Width and height of a parameter. A vector is a thin column."""
    whole = part['whole']
    return (whole[1] * SCALE, whole[0] * SCALE) if len(whole) == 2 else (8, whole[0] * SCALE)


def draw_parameter(out, x, y, w, h, parts):
    whole = parts[0]['whole']
    if all(box_of(box, whole) == (0, 0, 1, 1) for part in parts for box in part['boxes']):
        return out.rect(x, y, w, h, PALE, LINE)
    for part, colour in zip(parts, RANKS):
        for box in part['boxes']:
            left, top, wide, high = box_of(box, whole)
            out.rect(x + left * w, y + top * h, wide * w, high * h, colour, '#ffffff', radius=1)


def box_of(box, whole):
    """Left, top, width and height as shares of the whole parameter."""
    begin, extent = box['begin'], box['extent']
    if len(whole) == 1:
        return 0, begin[0] / whole[0], 1, extent[0] / whole[0]
    return begin[1] / whole[1], begin[0] / whole[0], extent[1] / whole[1], extent[0] / whole[0]


def caption(out, x, name, whole):
    short = name.removeprefix('h.0.').removeprefix('attn.').removesuffix('.weight')
    out.text(x, BELOW, short, 12, INK, 'middle')
    if len(whole) == 2:
        out.text(x, BELOW + 16, f'{whole[0]} x {whole[1]}', 11, DIM, 'middle')
