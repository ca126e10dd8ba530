"""Least squares of logarithms, without numpy."""

import math
import random


def downhill(cost, start, step):
    """Returns the lowest cost found by the downhill simplex method (Nelder and Mead 1965), and its point."""
    size = len(start)
    simplex = [[value + (step if axis == corner else 0) for axis, value in enumerate(start)]
               for corner in range(-1, size)]
    simplex = [(cost(point), point) for point in simplex]
    for _ in range(400 * size):
        simplex.sort()
        if simplex[-1][0] - simplex[0][0] < 1e-13:
            break
        worst = simplex[-1]
        middle = [sum(point[axis] for _, point in simplex[:-1]) / size for axis in range(size)]

        def try_at(factor):
            point = [m + factor * (w - m) for m, w in zip(middle, worst[1])]
            return cost(point), point

        best = try_at(-1)
        if best < simplex[0]:
            best = min(best, try_at(-2))
        elif best >= simplex[-2]:
            best = try_at(0.5)
        if best < worst:
            simplex[-1] = best
        else:
            lowest = simplex[0][1]
            shrunk = [[(a + b) / 2 for a, b in zip(lowest, point)] for _, point in simplex[1:]]
            simplex[1:] = [(cost(point), point) for point in shrunk]
    return min(simplex)


def fit(model, rows, start, tries=60):
    """Returns the positive constants with which log(model / measured) has the least sum of squares.

    `rows` maps what `model(constants, row)` takes to the measured time. Searches from `start`, and from `tries` random
    points within a factor of 2 of it, because a minimum over protocols has kinks that stop a search. Constants that the
    rows do not determine stay near `start`.
    """
    def cost(logs):
        constants = [math.exp(value) for value in logs]
        near = sum((value - math.log(first)) ** 2 for value, first in zip(logs, start))
        return sum(math.log(model(constants, row) / time) ** 2 for row, time in rows.items()) + 1e-5 * near

    draw = random.Random(1)
    best = None
    for attempt in range(tries + 1):
        spread = 0.7 if attempt else 0
        point = [math.log(value) + draw.uniform(-spread, spread) for value in start]
        found = downhill(cost, point, 0.3)
        while (again := downhill(cost, found[1], 0.1))[0] < found[0] - 1e-9:
            found = again
        best = min(best, found) if best else found
    return [math.exp(value) for value in best[1]]
