package control_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestApplyPatch compares git in the sandbox with what is done when there is none.
func TestApplyPatch(t *testing.T) {
	t.Parallel()
	const hunk = "@@ -1 +1,2 @@\n l1\n+l2\n"
	for _, c := range []struct {
		name, patch string
		exit        int
		stderr      string            // of both
		files       map[string]string // afterwards; "" is absent
	}{
		{"simple", "--- a/p.txt\n+++ b/p.txt\n" + hunk, 0, "", map[string]string{"p.txt": "l1\nl2\n"}},
		{"no final newline", "--- a/p.txt\n+++ b/p.txt\n" + strings.TrimSuffix(hunk, "\n"), 0, "", map[string]string{"p.txt": "l1\nl2\n"}},
		{"does not apply", "--- a/p.txt\n+++ b/p.txt\n@@ -1 +1,2 @@\n l9\n+l2\n", 1, "error: patch failed: p.txt:1\nerror: p.txt: patch does not apply\n", map[string]string{"p.txt": "l1\n"}},
		{"garbage", "garbage", 128, "error: No valid patches in input (allow with \"--allow-empty\")\n", nil},
		{"empty", "", 128, "error: No valid patches in input (allow with \"--allow-empty\")\n", nil},
		{"missing file", "--- a/nofile\n+++ b/nofile\n" + hunk, 1, "error: nofile: No such file or directory\n", nil},
		{"new file exists", "diff --git a/p.txt b/p.txt\nnew file mode 100644\n--- /dev/null\n+++ b/p.txt\n@@ -0,0 +1 @@\n+x\n", 1, "error: p.txt: already exists in working directory\n", map[string]string{"p.txt": "l1\n"}},
		{"outside", "diff --git a/../x b/../x\nnew file mode 100644\n--- /dev/null\n+++ b/../x\n@@ -0,0 +1 @@\n+x\n", 128, "error: invalid path '../x'\n", nil},
		{"all or nothing", "--- a/p.txt\n+++ b/p.txt\n" + hunk + "--- a/long\n+++ b/long\n@@ -1 +1 @@\n-q\n+r\n", 1, "error: patch failed: long:1\nerror: long: patch does not apply\n", map[string]string{"p.txt": "l1\n"}},
		{"offset", "--- a/long\n+++ b/long\n@@ -3,3 +3,3 @@\n 5\n-6\n+six\n 7\n", 0, "", map[string]string{"long": "1\n2\n3\n4\n5\nsix\n7\n8\n9\n"}},
		{"two hunks with offsets", "--- a/long\n+++ b/long\n@@ -2,2 +2,3 @@\n 3\n+new\n 4\n@@ -5,3 +6,3 @@\n 7\n-8\n+eight\n 9\n", 0, "", map[string]string{"long": "1\n2\n3\nnew\n4\n5\n6\n7\neight\n9\n"}},
		{"must begin the file", "--- a/long\n+++ b/long\n@@ -1,2 +1,3 @@\n 2\n+x\n 3\n", 1, "error: patch failed: long:1\nerror: long: patch does not apply\n", nil},
		{"must end the file", "--- a/long\n+++ b/long\n@@ -5,2 +5,3 @@\n 5\n 6\n+x\n", 1, "error: patch failed: long:5\nerror: long: patch does not apply\n", nil},
		{"make, remove, rename", "diff --git a/n/new.sh b/n/new.sh\nnew file mode 100755\n--- /dev/null\n+++ b/n/new.sh\n@@ -0,0 +1 @@\n+echo\n" +
			"diff --git a/p.txt b/p.txt\ndeleted file mode 100644\n--- a/p.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-l1\n" +
			"diff --git a/long b/moved\nsimilarity index 90%\nrename from long\nrename to moved\n--- a/long\n+++ b/moved\n@@ -1,2 +1,2 @@\n-1\n+one\n 2\n", 0, "",
			map[string]string{"n/new.sh": "echo\n", "p.txt": "", "long": "", "moved": "one\n2\n3\n4\n5\n6\n7\n8\n9\n"}},
		{"a line that ends a here-document", "--- a/p.txt\n+++ b/p.txt\n@@ -1 +1,3 @@\n l1\n+PATCH_EOF\n+$(touch owned)\n", 0, "", map[string]string{"p.txt": "l1\nPATCH_EOF\n$(touch owned)\n", "owned": ""}},
		{"lines that look like headers", "--- a/p.txt\n+++ b/p.txt\n@@ -1 +1,3 @@\n l1\n+++ b/x/y\n+@@ -1 +1 @@\n--- a/long\t2026-01-01 00:00:00\n+++ b/long\t2026-01-02 00:00:00\n@@ -1 +1 @@\n-1\n+one\n", 1,
			"error: patch failed: long:1\nerror: long: patch does not apply\n", map[string]string{"p.txt": "l1\n"}},
		{"two plain headers", "--- a/p.txt\n+++ b/p.txt\n@@ -1 +1,3 @@\n l1\n+++ b/x/y\n+@@ -1 +1 @@\n--- a/long\t2026-01-01 00:00:00\n+++ b/long\t2026-01-02 00:00:00\n@@ -1,2 +1,2 @@\n-1\n+one\n 2\n", 0,
			"", map[string]string{"p.txt": "l1\n++ b/x/y\n@@ -1 +1 @@\n", "long": "one\n2\n3\n4\n5\n6\n7\n8\n9\n"}},
		{"without newline at the end", "--- a/p.txt\n+++ b/p.txt\n@@ -1 +1 @@\n-l1\n+l1\n\\ No newline at end of file\n", 0, "", map[string]string{"p.txt": "l1"}},
	} {
		for _, method := range []string{"git", "gitdiff"} {
			t.Run(c.name+" by "+method, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, nil)
				env := obj{}
				if method == "gitdiff" { // a PATH with nothing on it but rm
					bin := t.TempDir()
					if err := os.Symlink("/bin/rm", filepath.Join(bin, "rm")); err != nil {
						t.Fatal(err)
					}
					env["PATH"] = bin
				}
				id := r.do("POST", "/sandboxes", obj{"image": "host", "env": env}).str("sandbox_id")
				r.do("GET", "/sandboxes/"+id+"/wait", nil)
				for name, content := range map[string]string{"p.txt": "l1\n", "long": "1\n2\n3\n4\n5\n6\n7\n8\n9\n"} {
					if err := os.WriteFile(filepath.Join(r.work, name), []byte(content), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				a := r.do("POST", "/sandboxes/"+id+"/apply_patch", obj{"patch": c.patch})
				if a.status != 200 || a.json["exit_code"] != float64(c.exit) || a.json["success"] != (c.exit == 0) || a.str("stderr") != c.stderr || a.str("method") != method {
					t.Errorf("answer %d %s\nwant exit %d, stderr %q", a.status, a.raw, c.exit, c.stderr)
				}
				for name, want := range c.files {
					got, err := os.ReadFile(filepath.Join(r.work, name))
					if (want == "") != os.IsNotExist(err) || string(got) != want {
						t.Errorf("%s is %q, %v; want %q", name, got, err, want)
					}
				}
				if info, err := os.Stat(filepath.Join(r.work, "n/new.sh")); err == nil && info.Mode().Perm() != 0o755 {
					t.Errorf("the new script has mode %v", info.Mode())
				}
			})
		}
	}
}

func TestApplyPatchRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := r.box()
	if a := r.do("POST", "/sandboxes/"+id+"/apply_patch", obj{}); a.status != 422 {
		t.Errorf("no patch: %d %s", a.status, a.raw)
	}
	if a := r.do("POST", "/sandboxes/"+id+"/apply_patch", obj{"patch": strings.Repeat("x", 17<<20)}); a.status != 413 {
		t.Errorf("a patch of 17 MiB: %d %s", a.status, a.raw)
	}
	r.rt.End(id, "OOMKilled", "")
	if a := r.do("POST", "/sandboxes/"+id+"/apply_patch", obj{"patch": "x"}); a.status != 404 || a.str("reason") != "OOMKilled" {
		t.Errorf("ended sandbox: %d %s", a.status, a.raw)
	}
}
