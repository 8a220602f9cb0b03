package scripted

import (
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"

	"orchard/internal/seal"
)

// Ending is how a rollout of the policy ends.
type Ending string

// The endings.
const (
	Right     Ending = "right"      // hands in the gold patch
	Wrong     Ending = "wrong"      // hands in a part of it, or a comment
	Empty     Ending = "empty"      // hands in nothing
	StepLimit Ending = "step_limit" // looks around until it is stopped
	Malformed Ending = "malformed"  // answers what cannot be followed, again and again
	Stuck     Ending = "stuck"      // runs the same command again and again
)

var endings = []Ending{Right, Wrong, Empty, StepLimit, Malformed, Stuck}

func (e Ending) known() bool { return slices.Contains(endings, e) }

// turn is one answer before it is put into a protocol: a thought and its commands, or
// a malformed answer.
type turn struct {
	thought   string
	commands  []string // run in order, in one answer where the protocol can
	malformed bool
	kind      int // which malformed answer
}

// plan is a rollout: its turns, and what follows the last of them, for endings that
// only a limit ends.
type plan struct {
	ending Ending
	turns  []turn
	rest   func(step int) turn
}

// at is the turn of a step. A policy that is asked again after it has handed in, since
// that command failed, hands in again.
func (p plan) at(step int) turn {
	if step < len(p.turns) {
		return p.turns[step]
	}
	if p.rest != nil {
		return p.rest(step)
	}
	return p.turns[len(p.turns)-1]
}

// plan is the whole rollout of a task with a seed. It is made anew for every request.
func (o Options) plan(t *task, seed int64, p protocol) plan {
	s := uint64(seal.Seed(seed, "scripted", t.TaskID))
	rng := rand.New(rand.NewPCG(s, 0))
	b := &builder{task: t, protocol: p}
	out := plan{ending: o.draw(rng)}
	stumbles, partial := rng.Float64() < o.Malformed, rng.IntN(2) == 0
	looks := 1 + rng.IntN(3)

	b.look(looks)
	switch out.ending {
	case Right, Wrong:
		if o.RunTests {
			b.test("Run the tests first, to see where things stand.")
		}
		if out.ending == Right && len(t.pieces) > 0 {
			b.change(t.pieces)
		} else if some := without(t.pieces); partial && some != nil {
			b.change(some)
		} else {
			b.remark()
		}
		b.do("See what has changed.", "git diff --stat 2>/dev/null || ls /tmp/change-*.patch")
		if o.RunTests {
			b.test("Run the tests again.")
		}
		b.submit()
	case Empty:
		b.do("This may not be a problem at all. Look once more.", "ls -a")
		b.submit()
	case StepLimit:
		out.rest = b.dither
	case Stuck:
		out.rest = func(int) turn { return turn{thought: "List the files.", commands: []string{"ls"}} }
	case Malformed:
		out.rest = func(step int) turn { return turn{malformed: true, kind: step} }
	}
	if out.turns = b.turns; stumbles {
		out.turns = slices.Insert(out.turns, rng.IntN(len(out.turns)), turn{malformed: true, kind: rng.IntN(kinds)})
	}
	return out
}

// draw decides how a rollout ends.
func (o Options) draw(rng *rand.Rand) Ending {
	if rng.Float64() < o.SolveRate {
		return Right
	}
	sum := 0.0
	for _, e := range endings {
		sum += o.Weights[e]
	}
	x := rng.Float64() * sum
	last := Right // reached only when no ending has a weight, and then the rate is 1
	for _, e := range endings {
		w := o.Weights[e]
		if w <= 0 {
			continue
		}
		if last = e; x < w {
			return e
		}
		x -= w
	}
	return last
}

// builder collects turns.
type builder struct {
	*task
	protocol protocol
	turns    []turn
	touched  []string // files that were changed
	added    []string // those of them that are new
}

func (b *builder) do(thought string, commands ...string) {
	b.turns = append(b.turns, turn{thought: thought, commands: commands})
}

// look reads n places of the repository, those of the gold patch first.
func (b *builder) look(n int) {
	commands := []string{"ls"}
	for _, p := range b.pieces {
		if p.path != "" && !p.isNew && p.first > 0 {
			from := max(1, p.first-5)
			commands = append(commands, fmt.Sprintf("sed -n '%d,%dp' %s", from, from+20, quote(p.path)))
		}
	}
	commands = commands[:min(len(commands), n+1)]
	if b.protocol.tools {
		b.do("I want to see the repository and the code that the description is about.", commands...)
		return
	}
	for _, c := range commands {
		b.do("I want to see the repository and the code that the description is about.", c)
	}
}

// test runs the first test command. What it prints has times in it.
func (b *builder) test(thought string) {
	if len(b.TestCmds) > 0 {
		b.do(thought, "( "+b.TestCmds[0]+"\n) > /tmp/tests.log 2>&1; echo \"the tests ended with $?\"")
	}
}

// maxChanges is how many answers a change is spread over at most.
const maxChanges = 6

// change applies pieces, one an answer, or several when there are many.
func (b *builder) change(pieces []piece) {
	each := (len(pieces) + maxChanges - 1) / maxChanges
	n := 0
	for group := range slices.Chunk(pieces, each) {
		var commands, paths []string
		for _, p := range group {
			n++
			commands = append(commands, p.apply(n))
			if p.path == "" {
				continue
			}
			if !slices.Contains(paths, p.path) {
				paths = append(paths, p.path)
			}
			if !slices.Contains(b.touched, p.path) {
				b.touched = append(b.touched, p.path)
				if p.isNew {
					b.added = append(b.added, p.path)
				}
			}
		}
		b.do("Change "+strings.Join(paths, ", ")+".", strings.Join(commands, "\n"))
	}
}

// remark changes nothing that runs: it adds a comment to a file of the gold patch.
func (b *builder) remark() {
	file, mark := "NOTES", ""
	for _, p := range b.pieces {
		if p.path != "" && !p.isNew {
			file = p.path
			break
		}
	}
	switch path.Ext(file) {
	case ".go", ".c", ".h", ".cc", ".cpp", ".java", ".js", ".ts", ".rs", ".php", ".swift", ".kt":
		mark = "// "
	case ".py", ".sh", ".rb", ".pl", ".toml", ".yaml", ".yml", ".cfg", ".bats":
		mark = "# "
	}
	b.touched = append(b.touched, file)
	if file == "NOTES" {
		b.added = append(b.added, file)
	}
	b.do("The code is right as it is; say so in "+file+".", fmt.Sprintf("printf '%%s\\n' '%sLooked at this: it works as intended.' >> %s", mark, quote(file)))
}

// dither reads one more line of some file, another one each time.
func (b *builder) dither(step int) turn {
	file := "/etc/passwd"
	for _, p := range b.pieces {
		if p.path != "" && !p.isNew {
			file = quote(p.path)
			break
		}
	}
	return turn{thought: "There may be more to see.", commands: []string{fmt.Sprintf("sed -n '%dp' %s; echo looked at line %d", step, file, step)}}
}

// submit hands in what was changed, by the steps of the protocol. Without git it hands
// in the pieces as they were applied.
func (b *builder) submit() {
	diff := "git diff"
	if len(b.touched) > 0 {
		diff += " --" + words(b.touched)
	}
	if len(b.added) > 0 {
		diff = "git add -N --" + words(b.added) + " && " + diff
	}
	const pieces = "cat /tmp/change-*.patch 2>/dev/null || true"
	if b.protocol.oneCommand {
		b.do("Hand it in.", "echo "+sentinel+" && { { git add -A && git diff --cached; } 2>/dev/null || "+pieces+"; }")
		return
	}
	b.do("Write the patch.", "{ "+diff+"; } > /tmp/patch.txt 2>/dev/null || { "+pieces+"; } > /tmp/patch.txt")
	b.do("Check the patch.", "cat /tmp/patch.txt")
	b.do("Hand it in.", "echo "+sentinel+" && cat /tmp/patch.txt")
}

func words(paths []string) string {
	var b strings.Builder
	for _, p := range paths {
		b.WriteString(" " + quote(p))
	}
	return b.String()
}
