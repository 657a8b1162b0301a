"""Go's pprof: that of an installed Go, or the one program that test.sh took out of Debian's package."""
import glob
import os
import shutil


def command(build):
    """As the begin of a command line; None where there is none."""
    if shutil.which('go'):
        return ['go', 'tool', 'pprof']
    found = glob.glob(os.path.join(build, 'pprof', 'usr', 'lib', 'go-*', 'pkg', 'tool', '*', 'pprof'))
    return found[:1] or None
