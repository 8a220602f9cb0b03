# Makes the repository at W from the bundle at $P/bundle, which holds the history up
# to B and nothing else.
mkdir -p "$W"
rm -rf "$W/.git"
git init -q --template= $format "$W"
export GIT_DIR="$W/.git" GIT_WORK_TREE="$W"
cd "$W"
git bundle unbundle "$P/bundle" >"$P/heads" || die "the bundle is not readable or not complete"
git cat-file -e "$B^{commit}" 2>/dev/null || die "the bundle has no commit $B"
while read -r id ref; do
	[ "$id" = "$B" ] || die "the bundle's $ref is at $id and not at the base commit $B"
done <"$P/heads"
rm -f "$P/bundle" "$P/heads"
# "git commit" has to work for the policy.
printf '[user]\n\tname = developer\n\temail = developer@localhost\n' >>"$GIT_DIR/config"
echo 'ref: refs/heads/main' >"$GIT_DIR/HEAD"
git update-ref refs/heads/main "$B"
git reset -q --hard || die "the files of commit $B cannot be checked out"
rm -rf "$GIT_DIR/logs" "$GIT_DIR/ORIG_HEAD" "$GIT_DIR/FETCH_HEAD"
