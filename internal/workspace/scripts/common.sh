# What every script starts with. W: working tree, P: private folder, B: base commit,
# H: home of the sandbox's user.
set -eu
die() { echo "$*" >&2; exit 90; }
command -v git >/dev/null 2>&1 || exit 91
# An explicit HOME and no system file: no configuration but this is read.
printf '[safe]\n\tdirectory = *\n[gc]\n\tauto = 0\n[advice]\n\taddEmbeddedRepo = false\n' >"$P/.gitconfig"
format=
[ "${#B}" -ne 64 ] || format=--object-format=sha256

# own makes the private repository the one that git uses.
own() {
	export GIT_DIR="$P/git" GIT_WORK_TREE="$W"
	[ -s "$GIT_DIR/refs/heads/base" ] || { echo "there is no prepared tree at $P" >&2; exit 1; }
	[ ! -e "$GIT_DIR/index.lock" ] || rm -f "$GIT_DIR/index.lock" # of a run that was killed
	[ -d "$W" ] || mkdir -p "$W"
	cd "$W"
}

# leave_out_large writes the files above the limit to $P/large and keeps git from
# adding them. A name with a newline is not recognised and is added.
leave_out_large() {
	{ find . -name .git -prune -o -type f -size "+${MAX_KB}k" -print 2>/dev/null || :; } >"$P/large"
	sed -e 's/[][*?\\ ]/\\&/g' -e 's/^\.//' "$P/large" >"$GIT_DIR/info/exclude"
}

# stage brings the private index up to the working tree. Exit code 1 is a path that
# git cannot add (a nested repository without a commit, an unreadable file): the rest
# is added.
stage() {
	leave_out_large
	git add -A --ignore-errors . 2>"$P/stage" || [ $? -eq 1 ] || { cat "$P/stage" >&2; exit 1; }
}
