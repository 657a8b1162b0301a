"""`python -m stepagent …` and the command `stepagent`: becomes the program of the package."""
import os
import sys

from stepagent import program


def main():
    os.execv(program(), ['stepagent'] + sys.argv[1:])


if __name__ == '__main__':
    main()
