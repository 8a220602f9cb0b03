# Applies $P/patch to the working tree, wholly or not at all, and prints how.
# FUZZY=1: GNU patch may try too.
own
stage
before=$(git write-tree)
try() {
	method=$1
	shift
	echo "$method:" >>"$P/words"
	if "$@" >>"$P/words" 2>&1; then
		echo "$method"
		exit 0
	fi
	# What a failed try left behind is put back.
	stage
	git read-tree --reset -u "$before"
}
: >"$P/words"
try git-apply git apply --whitespace=nowarn "$P/patch"
# The repository's own attributes: a patch with LF for files checked out with CRLF.
[ ! -e "$W/.git" ] || try git-apply-attributes env GIT_DIR="$W/.git" git apply --whitespace=nowarn "$P/patch"
try git-apply-3way git apply --3way --whitespace=nowarn "$P/patch"
try git-apply-lenient git apply --recount --ignore-whitespace --whitespace=nowarn "$P/patch"
if [ -n "${FUZZY:-}" ] && command -v patch >/dev/null 2>&1; then
	try patch-fuzz patch --batch --forward --fuzz=5 -p1 --no-backup-if-mismatch -r - -i "$P/patch"
fi
cat "$P/words" >&2
exit 92
