#!/usr/bin/env bash
# restart.sh NAME: stops a component and starts it with the very same arguments; returns when it is healthy.
exec "$(dirname "$0")/component.sh" restart "$@"
