"""A reader of pprof profiles (profile.proto), for tests: the wire format, taken apart by hand.

read(path) -> Profile(types, samples); a sample's frames are leaf first.
"""
import gzip
from collections import namedtuple

Profile = namedtuple('Profile', 'types samples')
Sample = namedtuple('Sample', 'frames values labels')
Frame = namedtuple('Frame', 'name source line module build_id address')


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def fields(data):
    """(number, value) of a message: an int, or bytes."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        elif key & 7 == 2:
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
        else:
            raise ValueError(f'wire type {key & 7}')
        yield key >> 3, value


def message(data):
    """{number: last value}"""
    return dict(fields(data))


def numbers(values):
    """Of a repeated number, packed or not."""
    found = []
    for value in values:
        if isinstance(value, int):
            found.append(value)
            continue
        at = 0
        while at < len(value):
            number, at = varint(value, at)
            found.append(number)
    return found


def read(path):
    with gzip.open(path) as source:
        top = list(fields(source.read()))

    def of(number):
        return [value for key, value in top if key == number]

    strings = [value.decode() for value in of(6)]
    functions = {m[1]: m for m in map(message, of(5))}
    mappings = {m[1]: m for m in map(message, of(3))}

    def frames_of(location):
        lines = [message(value) for key, value in fields(location) if key == 4]
        own = message(location)
        mapping = mappings.get(own.get(2, 0), {})
        for line in lines:
            function = functions[line[1]]
            yield Frame(strings[function[2]], strings[function.get(4, 0)], line.get(2, 0),
                        strings[mapping.get(5, 0)], strings[mapping.get(6, 0)], own.get(3, 0))

    locations = {message(value)[1]: list(frames_of(value)) for value in of(4)}
    samples = []
    for value in of(2):
        parts = list(fields(value))
        ids = numbers([v for k, v in parts if k == 1])
        labels = {strings[m[1]]: strings[m[2]] if 2 in m else m.get(3, 0)
                  for m in (message(v) for k, v in parts if k == 3)}
        samples.append(Sample([frame for i in ids for frame in locations[i]],
                              numbers([v for k, v in parts if k == 2]), labels))
    return Profile([strings[message(value)[1]] for value in of(1)], samples)
