# Records the working tree at W, byte for byte, as what diffs are taken against.
# FORCE=1: also the files that .gitignore names.
G="$P/git"
rm -rf "$G"
git init -q --bare --template= $format "$G"
cat >>"$G/config" <<CONFIG
[core]
	bare = false
	fileMode = true
	symlinks = true
	ignoreCase = false
	autocrlf = false
	safecrlf = false
	fsmonitor = false
	untrackedCache = false
	logAllRefUpdates = false
	hooksPath = /dev/null
	excludesFile = /dev/null
	attributesFile = /dev/null
CONFIG
# These come before every .gitattributes: bytes are neither converted nor filtered.
mkdir -p "$G/info"
echo '* -text -ident -filter !eol !diff !whitespace !working-tree-encoding' >"$G/info/attributes"
cd "$W"
if [ -z "${FORCE:-}" ]; then
	# Pre-commands may have moved HEAD and left traces of it.
	head=$(git rev-parse --verify -q 'HEAD^{commit}') || die "after the pre-commands there is no commit at $W"
	if [ "$head" != "$B" ] && [ "$(git rev-parse --verify -q 'HEAD^1' || :)" != "$B" ]; then
		die "the pre-commands moved the repository at $W to $head"
	fi
	R=$(git rev-parse --absolute-git-dir)
	echo "$R/objects" >"$G/objects/info/alternates"
	rm -rf "$R/logs" "$R/ORIG_HEAD" "$R/FETCH_HEAD"
fi
export GIT_DIR="$G" GIT_WORK_TREE="$W"
if [ -z "${FORCE:-}" ]; then
	git read-tree "$head" # files that are tracked although .gitignore names them
	stage
else
	leave_out_large
	git add -A -f .
fi
cp "$P/large" "$P/large.base"
tree=$(git write-tree)
commit=$(GIT_AUTHOR_NAME=base GIT_AUTHOR_EMAIL=base GIT_AUTHOR_DATE='@0 +0000' \
	GIT_COMMITTER_NAME=base GIT_COMMITTER_EMAIL=base GIT_COMMITTER_DATE='@0 +0000' \
	git commit-tree -m base "$tree")
git update-ref refs/heads/base "$commit"
echo 'ref: refs/heads/base' >"$G/HEAD"
git repack -a -d -q
rm -f "$G/objects/info/alternates"
if [ -z "${FORCE:-}" ]; then
	# git refuses a repository of another owner; the policy's own git has to work.
	unset GIT_DIR GIT_WORK_TREE GIT_CONFIG_NOSYSTEM
	export HOME="$H"
	git rev-parse --git-dir >/dev/null 2>&1 || git config --global --add safe.directory "$W" ||
		git config --system --add safe.directory "$W"
fi
