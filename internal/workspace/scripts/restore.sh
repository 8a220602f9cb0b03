# Puts the paths given as arguments back to the prepared tree; one that is not in it
# is removed.
own
stage
for p in "$@"; do
	# A file or symlink where the path needs a folder would lead elsewhere.
	lead=$p
	while [ "$lead" != "${lead%/*}" ]; do
		lead=${lead%/*}
		if [ -L "$lead" ] || { [ -e "$lead" ] && [ ! -d "$lead" ]; }; then rm -f -- "$lead"; fi
	done
	if git cat-file -e "refs/heads/base:$p" 2>/dev/null; then
		git --literal-pathspecs checkout -q refs/heads/base -- "$p"
	else
		rm -rf -- "$p"
	fi
done
