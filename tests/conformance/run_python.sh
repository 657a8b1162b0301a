#!/bin/sh
# The tests' interpreter, which has pip, else the one that is found first.
exec "${STEPAGENT_TEST_PYTHON:-python3}" "$@"
