#!/bin/sh
mkdir -p /logs/verifier
grep -q hello hello.txt && echo 1 >/logs/verifier/reward.txt || echo 0 >/logs/verifier/reward.txt
