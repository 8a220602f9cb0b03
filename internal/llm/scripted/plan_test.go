package scripted

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orchard/datasets/record"
)

// git runs git in dir with nothing of the user's configuration.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	c := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.org"}, args...)...)
	c.Dir = dir
	c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "HOME="+dir)
	out, err := c.Output()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return string(out)
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func lines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintln(&b, "line", i%7) // repeats, so that a wrong place has the same context
	}
	return b.String()
}

// Pieces applied one by one, each exactly where it says, make the whole patch.
func TestPiecesMakeTheWhole(t *testing.T) {
	t.Parallel()
	base := lines(60)
	edit := func(changes ...string) string { return strings.NewReplacer(changes...).Replace(base) }
	block := strings.Split(base, "\n")
	many := append([]string(nil), block...)
	many[3], many[20], many[45] = "changed\nand added", "", "x\ny\nz"
	many = append(append(many[:30:30], many[36:]...), "the end, without a line end")
	tests := []struct {
		name   string
		files  map[string]string // after; a "" is deleted
		pieces int
	}{
		{"one hunk", map[string]string{"a.txt": base + "more\n"}, 1},
		{"many hunks, no line end", map[string]string{"a.txt": strings.Join(many, "\n")}, 5},
		{"every seventh line", map[string]string{"a.txt": edit("line 3\n", "LINE\nLINE\n")}, 0},
		{"new, deleted and spaces", map[string]string{"a.txt": base + "more\n", "b.txt": "", "with space.txt": "new\n", "empty.txt": "\x00"}, 4},
		{"binary", map[string]string{"bin": "\x00\x01\x02", "a.txt": "x" + base}, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			git(t, dir, "init", "-q")
			write(t, dir, "a.txt", base)
			write(t, dir, "b.txt", "b\n")
			git(t, dir, "add", "-A")
			git(t, dir, "commit", "-qm", "base")
			for name, content := range tt.files {
				if content == "" {
					if err := os.Remove(filepath.Join(dir, name)); err != nil {
						t.Fatal(err)
					}
					continue
				}
				write(t, dir, name, content)
			}
			git(t, dir, "add", "-A")
			want := git(t, dir, "diff", "--cached", "--binary")
			git(t, dir, "reset", "-q", "--hard")
			pieces := split(want)
			if tt.pieces > 0 && len(pieces) != tt.pieces {
				t.Errorf("%d pieces, want %d", len(pieces), tt.pieces)
			}
			for i, p := range pieces {
				write(t, dir, ".git/piece", p.text)
				if out := git(t, dir, "apply", "-v", ".git/piece"); strings.Contains(out, "offset") {
					t.Errorf("piece %d is not where it says: %s", i, out)
				}
			}
			git(t, dir, "add", "-A")
			if d := cmp.Diff(want, git(t, dir, "diff", "--cached", "--binary")); d != "" {
				t.Errorf("(-whole +pieces):\n%s", d)
			}
		})
	}
}

func TestPatchesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	if p := split(" \n"); p != nil {
		t.Errorf("blank patch: %d pieces", len(p))
	}
	if p := split("no patch"); len(p) != 1 || p[0].text != "no patch\n" {
		t.Errorf("unreadable patch: %+v, want it whole", p)
	}
}

func TestHereDocumentsEndWhereTheyShould(t *testing.T) {
	t.Parallel()
	p := piece{text: "PATCH\nPATCH_\n+x\n"}
	if got := p.apply(1); !strings.Contains(got, "<<'PATCH__'\n"+p.text+"PATCH__\n") {
		t.Errorf("got %q", got)
	}
	if got := quote("it's"); got != `'it'\''s'` {
		t.Errorf("quote: %s", got)
	}
}

// Every ending occurs, as often as it should.
func TestEndingsOccurAsOftenAsTheyShould(t *testing.T) {
	t.Parallel()
	o := Defaults()
	tk := &task{Task: record.Task{TaskID: "t"}, pieces: split(gold)}
	const n = 4000
	seen, stumbles := map[Ending]float64{}, 0.0
	for seed := range int64(n) {
		p := o.plan(tk, seed, protocol{tools: true})
		seen[p.ending]++
		for _, u := range p.turns {
			if u.malformed {
				stumbles++
			}
		}
	}
	want := map[Ending]float64{Right: o.SolveRate, "stumbles": o.Malformed}
	for e, w := range o.Weights {
		want[e] = (1 - o.SolveRate) * w / 9
	}
	seen["stumbles"] = stumbles
	for e, p := range want {
		// Five standard deviations: the seeds are fixed, so this never fails by chance.
		if got := seen[e] / n; math.Abs(got-p) > 5*math.Sqrt(p*(1-p)/n) {
			t.Errorf("%s: %.3f of rollouts, want %.3f", e, got, p)
		}
	}
}

// A plan leaves the largest hunk out, or only adds a comment, when it is to be wrong.
func TestWrongIsWrong(t *testing.T) {
	t.Parallel()
	tk := &task{Task: record.Task{TaskID: "t"}, pieces: split(gold)}
	o := Options{Weights: map[Ending]float64{Wrong: 1}}
	partial, comment := 0, 0
	for seed := range int64(50) {
		var all strings.Builder
		for _, u := range o.plan(tk, seed, protocol{fence: "bash", oneCommand: true}).turns {
			all.WriteString(strings.Join(u.commands, "\n"))
		}
		switch s := all.String(); {
		case strings.Contains(s, "+large"):
			t.Fatalf("seed %d has the largest change:\n%s", seed, s)
		case strings.Contains(s, "+small"):
			partial++
		case strings.Contains(s, "# Looked at this"):
			comment++
		}
	}
	if partial == 0 || comment == 0 || partial+comment != 50 {
		t.Errorf("%d partial changes and %d comments of 50", partial, comment)
	}
}

const gold = `--- a/calc.py
+++ b/calc.py
@@ -1,2 +1,2 @@
-a
+small
 b
@@ -10,2 +10,4 @@
-c
+large
+large
+large
 d
`
