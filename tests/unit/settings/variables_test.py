"""Every variable that the sources name is in docs/configuration.md."""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
document = (root / 'docs' / 'configuration.md').read_text(encoding='utf-8')
# Tables of the SQLite file, and what only tests set.
not_variables = re.compile(r'STEPAGENT_(CYCLE|NOTE|LABEL|LOSS|VERSION|LIBDIR|PROGRAM|SIM_.*|TEST_.*)?$')
missing, seen = [], 0
for folder in ('agent', 'collector', 'proto'):
    for path in sorted((root / folder).rglob('*')):
        if path.suffix not in ('.c', '.cc', '.h'):
            continue
        text = path.read_text(encoding='utf-8')
        names = re.findall(r'"(STEPAGENT_[A-Z_]*)=?"', text)
        names += re.findall(r'(?:getenv|AddEnvironment|Variable|Get)\([^()"]*"([A-Z][A-Z0-9_]+)"', text)
        for name in names:
            if not_variables.match(name):
                continue
            seen += 1
            if '`' + name not in document:
                missing.append('%s: %s' % (path.relative_to(root), name))
print('%d names' % seen)
assert seen > 30, 'the sources were not read'
assert not missing, 'not in docs/configuration.md:\n' + '\n'.join(missing)
