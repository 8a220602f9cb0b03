#!/usr/bin/env bash
# component.sh restart|stop|start|status NAME: one process of the running cluster. stop ends
# it with TERM, and with KILL after ten seconds; start runs the very command that up.sh ran
# and returns when it is healthy. status says running or stopped, or fails when it is ill.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
[[ $# == 2 ]] || die "want restart, stop, start or status, and a component: ${components[*]}"
[[ " ${components[*]} " == *" $2 "* ]] || die "there is no component $2; there are ${components[*]}"
defined "$2" || die "$2 is not a part of this cluster: is the cluster up, and was the program built before?"
case $1 in
status)
  if healthy "$2"; then echo running; elif pid_of "$2" >/dev/null; then die "$2 runs and is not healthy"; else echo stopped; fi
  exit
  ;;
restart | stop | start) ;;
*) die "$1 is not restart, stop, start or status" ;;
esac
lock
[[ $1 == start ]] || stop_component "$2"
[[ $1 == stop ]] || { start_component "$2" && await "$2"; }
