# Removes from the image's repository at W everything beyond HEAD. HEAD has to be the
# base commit, or one commit of the image's builder on top of it.
[ -e "$W/.git" ] || die "the image has no repository at $W"
cd "$W"
GIT_DIR=$(git rev-parse --absolute-git-dir) || die "$W/.git is no repository"
export GIT_DIR GIT_WORK_TREE="$W"
head=$(git rev-parse --verify -q 'HEAD^{commit}') || die "the repository at $W has no commit"
if [ "$head" != "$B" ] && [ "$(git rev-parse --verify -q 'HEAD^1' || :)" != "$B" ]; then
	die "the repository at $W is at $head and not at the base commit $B"
fi
git remote | while read -r name; do git remote remove "$name"; done
branch=$(git symbolic-ref -q HEAD || :)
# What stays: the branch that is checked out, and tags of its history, which build
# tools read versions from.
{
	git for-each-ref --format='%(refname)' | grep -v '^refs/tags/' || :
	git for-each-ref --format='%(refname)' --no-merged=HEAD refs/tags
	git for-each-ref --format='%(objecttype) %(*objecttype) %(refname)' refs/tags |
		sed -n -e '/^commit /d' -e '/^tag commit /d' -e 's/^.* //p'
} | sort -u | { grep -vxF "${branch:-none}" || :; } | sed 's/^/delete /' | git update-ref --no-deref --stdin
# Objects borrowed from elsewhere come in, so that the rest of elsewhere goes.
rm -rf "$GIT_DIR/worktrees" "$GIT_DIR/logs"
rm -f "$GIT_DIR/FETCH_HEAD" "$GIT_DIR/ORIG_HEAD" "$GIT_DIR/MERGE_HEAD" "$GIT_DIR/CHERRY_PICK_HEAD" \
	"$GIT_DIR/REVERT_HEAD" "$GIT_DIR/BISECT_LOG" "$GIT_DIR"/objects/pack/*.keep
git reflog expire --expire=now --expire-unreachable=now --all
git repack -a -d -q
rm -f "$GIT_DIR/objects/info/alternates"
git prune --expire=now
rm -rf "$GIT_DIR/objects/info/commit-graph" "$GIT_DIR/objects/info/commit-graphs" "$GIT_DIR/logs"
