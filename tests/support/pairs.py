"""Cases in which every pair of values of any two factors occurs: far fewer than all combinations, and most bugs of
combinations need only two values."""
import itertools


def pairs_of(case):
    """All pairs of (factor, value) in a case, a dict from factor to value."""
    return {frozenset(pair) for pair in itertools.combinations(case.items(), 2)}


def wanted_pairs(factors, forbidden):
    """Every pair of values of two factors that is not forbidden by itself."""
    wanted = set()
    for a, b in itertools.combinations(factors, 2):
        for pair in itertools.product(factors[a], factors[b]):
            case = dict(zip((a, b), pair))
            if not forbidden(case):
                wanted.add(frozenset(case.items()))
    return wanted


def pairwise(factors, forbidden=lambda case: False):
    """Cases (dicts) that hold every wanted pair. `factors` is a dict from name to values; `forbidden` tells of a case, or of a
    part of one, whether it must not occur. Greedy and deterministic: each case begins with the first pair that is still
    missing, and then takes for each factor the value that adds most missing pairs."""
    order = sorted(factors, key=lambda name: (-len(factors[name]), name))
    missing = wanted_pairs({name: factors[name] for name in order}, forbidden)
    queue = sorted(missing, key=lambda pair: sorted(map(repr, pair)))
    cases = []
    for first in queue:
        if first not in missing:
            continue
        case = dict(first)
        for name in order:
            if name in case:
                continue
            allowed = [value for value in factors[name] if not forbidden({**case, name: value})]
            assert allowed, f"no value of {name} goes with {case}"

            def gain(value):
                return sum(frozenset([(name, value), other]) in missing for other in case.items())
            case[name] = max(allowed, key=gain)
        missing -= pairs_of(case)
        cases.append(case)
    return cases
