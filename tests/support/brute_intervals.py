"""Unions of intervals, pair by pair: for brute_force.py."""


def union(intervals):
    """Disjoint intervals that cover the same time."""
    out = []
    for begin, end in sorted(i for i in intervals if i[1] > i[0]):
        if out and begin <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((begin, end))
    return out


def length(intervals):
    return sum(end - begin for begin, end in union(intervals))


def both(a, b):
    a, b = union(a), union(b)
    return sum(max(0, min(x[1], y[1]) - max(x[0], y[0])) for x in a for y in b
               if y[0] < x[1] and y[1] > x[0])
