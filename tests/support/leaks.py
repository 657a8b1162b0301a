"""Whether any word of a list is left in a folder: in names, links, and in every file, however packed.

leaks(folder, words) lists (path, place, word). Looked into: the bytes themselves (UTF-8, UTF-16,
UTF-32, hexadecimal, percent-encoded; capitals or not), gzip, zlib and zip within one another, every cell of an SQLite
file, JSON with its escapes resolved, base64 of any length from 16 characters on. Protobuf, pprof and
our raw frames keep texts as bytes in one piece, so the bytes are enough for them.

    python3 leaks.py FOLDER WORD…     prints what it found; status 1 when there is something
"""
import base64
import binascii
import gzip
import io
import json
import os
import re
import sqlite3
import sys
import zipfile
import zlib

DEEPEST = 6
BASE64 = re.compile(rb'[A-Za-z0-9+/_-]{16,}={0,2}')
ESCAPED = re.compile(rb'\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}')


def _spellings(word):
    lower = word.lower()
    yield lower.encode()
    for encoding in ('utf-16-le', 'utf-16-be', 'utf-32-le', 'utf-32-be'):
        yield lower.encode(encoding)
    yield lower.encode().hex().encode()
    yield ''.join('%%%02x' % byte for byte in lower.encode()).encode()


def _inflated(data):
    """What is packed in `data`, as (place, bytes)."""
    if data[:2] == b'\x1f\x8b':
        try:
            yield 'gzip', gzip.decompress(data)
        except (OSError, EOFError, zlib.error):
            yield 'gzip, cut', zlib.decompressobj(31).decompress(data)
    elif data[:1] == b'\x78':
        try:
            yield 'zlib', zlib.decompress(data)
        except zlib.error:
            pass
    elif data[:4] == b'PK\x03\x04':
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for entry in archive.infolist():
                yield 'zip', entry.filename.encode() + b'\n' + entry.comment
                yield 'zip:' + entry.filename, archive.read(entry)
    elif data[:16] == b'SQLite format 3\0':
        yield 'sqlite', _sqlite_cells(data)


def _sqlite_cells(data):
    connection = sqlite3.connect(':memory:')
    path = None
    try:
        if hasattr(connection, 'deserialize'):
            connection.deserialize(data)
        else:
            import tempfile
            handle, path = tempfile.mkstemp()
            with os.fdopen(handle, 'wb') as file:
                file.write(data)
            connection.close()
            connection = sqlite3.connect(path)
        connection.text_factory = bytes
        cells = []
        tables = connection.execute("select name, sql from sqlite_master").fetchall()
        for name, sql in tables:
            cells += [name or b'', sql or b'']
        names = connection.execute("select name from sqlite_master where type = 'table'").fetchall()
        for (name,) in names:
            quoted = name.decode().replace('"', '""')
            for row in connection.execute('select * from "%s"' % quoted):
                cells += [c if isinstance(c, bytes) else str(c).encode() for c in row if c is not None]
        return b'\n'.join(cells)
    finally:
        connection.close()
        if path:
            os.unlink(path)


def _unescaped(data):
    """JSON's and C's escapes as the characters they stand for."""
    def character(match):
        code = int(match.group()[2:], 16)
        return chr(code).encode('utf-8', 'surrogatepass')
    return ESCAPED.sub(character, data)


def _pieces(data, place, depth=0):
    yield place, data
    if depth >= DEEPEST:
        return
    if ESCAPED.search(data):
        yield place + ' unescaped', _unescaped(data)
    for inner_place, inner in _inflated(data):
        yield from _pieces(inner, place + ' > ' + inner_place, depth + 1)
    for match in BASE64.finditer(data):
        text = match.group().translate(bytes.maketrans(b'-_', b'+/')).rstrip(b'=')
        for start in range(4 if len(text) < 4096 else 1):
            piece = text[start:]
            piece = piece[:len(piece) - (len(piece) % 4 == 1)]
            try:
                decoded = base64.b64decode(piece + b'=' * (-len(piece) % 4))
            except binascii.Error:
                continue
            yield place + ' > base64', decoded
            for inner_place, inner in _inflated(decoded):
                yield from _pieces(inner, place + ' > base64 > ' + inner_place, depth + 1)


def leaks_in(data, words, place=''):
    """(place, word) for each word found in the bytes."""
    found = set()
    wanted = [(word, list(_spellings(word))) for word in words]
    for where, piece in _pieces(data, place):
        lower = piece.lower()
        for word, spellings in wanted:
            if any(spelling in lower for spelling in spellings):
                found.add((where, word))
    return sorted(found)


def leaks(folder, words):
    found = []
    for root, folders, files in os.walk(folder):
        for name in folders + files:
            path = os.path.join(root, name)
            shown = os.path.relpath(path, folder)
            found += [(shown, 'name', word) for _, word in leaks_in(name.encode(), words)]
            if os.path.islink(path):
                target = os.readlink(path).encode()
                found += [(shown, 'link', word) for _, word in leaks_in(target, words)]
            elif name in files:
                with open(path, 'rb') as file:
                    data = file.read()
                found += [(shown, place, word) for place, word in leaks_in(data, words, 'bytes')]
    return found


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    found = leaks(sys.argv[1], sys.argv[2:])
    for path, place, word in found:
        print('%s: %s: %s' % (path, place, word))
    sys.exit(1 if found else 0)


if __name__ == '__main__':
    main()
