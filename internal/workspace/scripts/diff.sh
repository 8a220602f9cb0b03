# Writes the diff of the working tree to $P/diff and prints its sha256.
own
stage
{
	{ grep -vxF -f "$P/large.base" "$P/large" || :; } | sed 's/^\.\//left out of this diff, too large: /'
	git diff-index --cached -p --binary --full-index --no-renames --no-ext-diff --no-textconv \
		--no-color --ignore-submodules=all refs/heads/base
} >"$P/diff"
sha256sum <"$P/diff"
