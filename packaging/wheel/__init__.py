"""stepagent: step-scheduled GPU traces of unmodified CUDA applications.

The programs and libraries of the package, unchanged; nothing here runs in the traced process.
"""
import os

__version__ = '@VERSION@'
_HERE = os.path.dirname(os.path.abspath(__file__))


def library():
    """The path for LD_PRELOAD."""
    return os.path.join(_HERE, 'lib', 'libstepagent.so')


def program(name='stepagent'):
    """The path of one of the programs: stepagent, stepcollector."""
    return os.path.join(_HERE, 'bin', name)
