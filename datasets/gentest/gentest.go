// Package gentest makes rows for tests and benchmarks: tasks and rollouts in the number,
// the length and with the repetition of real ones, from a seed. The same seed and number
// give the same rows, each on its own. The text is nobody's; nothing in it is a task that
// anyone could solve.
package gentest

import (
	"fmt"
	"math/rand/v2"
	"strconv"

	"orchard/datasets/record"
	"orchard/internal/seal"
)

// Source makes rows. Not safe for concurrent use.
type Source struct {
	seed  uint64
	words []string
	r     *rand.Rand
	buf   []byte
}

// New is the rows of a seed.
func New(seed uint64) *Source {
	s := &Source{seed: seed}
	r := rand.New(rand.NewPCG(seed, 0))
	syllables := []string{"ba", "con", "di", "er", "fo", "get", "ha", "in", "ker", "lo", "map", "no", "op", "par", "qu", "re", "set", "ta", "un", "ver", "wri", "x", "yi", "zo"}
	for range 3000 {
		word := ""
		for range 2 + r.IntN(3) {
			word += syllables[r.IntN(len(syllables))]
		}
		s.words = append(s.words, word)
	}
	return s
}

// start makes what follows depend on the seed, the kind and the number alone.
func (s *Source) start(kind, i uint64) { s.r = rand.New(rand.NewPCG(s.seed^kind<<56, i+1)) }

// word is one of the source's, the first ones more often.
func (s *Source) word() string {
	n := len(s.words)
	return s.words[min(s.r.IntN(n), s.r.IntN(n), s.r.IntN(n))]
}

// shapes are lines of logs, code and diffs; w is a word, n a number, h hex digits.
var shapes = []string{
	"    def @w_@w(self, @w, @w=None):\n", "        return self.@w.@w(@w, @w=@n)\n", "        if @w is not None and @w > @n:\n", "            raise ValueError(\"@w @w must be a @w\")\n",
	"import @w.@w\n", "  File \"/repo/@w/@w.py\", line @n, in @w_@w\n", "tests/@w/test_@w.py::test_@w_@w PASSED   [ @n%]\n", "tests/@w/test_@w.py::Test@w::test_@w[@w-@n] PASSED\n",
	"E       AssertionError: assert @n == @n\n", "index @h..@h 100644\n", "@@ -@n,7 +@n,9 @@ def @w(@w):\n", "+        @w = @w[@w]  # @w @w @w\n", "-        @w = @w(@n)\n",
	"drwxr-xr-x 2 root root @n Jan  1 00:00 @w\n", "-rw-r--r-- 1 root root @n Jan  1 00:00 @w_@w.py\n", "The @w of the @w is not what the @w expects, so I look at @w next.\n",
	"WARNING @w.@w: @w took @n ms (id=@h)\n", "\n",
}

// text appends lines until there are size bytes.
func (s *Source) text(b []byte, size int) []byte {
	for end := len(b) + size; len(b) < end; {
		shape := shapes[s.r.IntN(len(shapes))]
		for i := 0; i < len(shape); i++ {
			if shape[i] != '@' || i+1 == len(shape) {
				b = append(b, shape[i])
				continue
			}
			i++
			switch shape[i] {
			case 'w':
				b = append(b, s.word()...)
			case 'n':
				b = strconv.AppendInt(b, int64(s.r.IntN(500)), 10)
			case 'h':
				b = append(b, fmt.Sprintf("%07x", s.r.Uint32()>>4)...)
			default:
				b = append(b, '@', shape[i])
			}
		}
	}
	return b
}

func (s *Source) say(size int) string {
	s.buf = s.text(s.buf[:0], size)
	return string(s.buf)
}

// between is a number of that range, most of them small.
func (s *Source) between(least, most int) int {
	f := s.r.Float64()
	return least + int(f*f*float64(most-least))
}

func exact(s string) record.Text { return record.Text{Value: s, Bytes: int64(len(s))} }

// Task is task i, about 6 KB of text. The ids of ever larger numbers are in no order.
func (s *Source) Task(i int) record.Task {
	s.start(1, uint64(i))
	repo := s.words[s.r.IntN(40)] + "/" + s.words[s.r.IntN(300)]
	t := record.Task{
		TaskID: seal.ID("task", strconv.FormatUint(s.seed, 10), strconv.Itoa(i)), Source: "generated", Repo: repo,
		Language: []string{"python", "go", "rust", "java"}[s.r.IntN(4)], Version: strconv.Itoa(s.r.IntN(9)) + ".0",
		Statement: s.say(s.between(200, 4000)), Hints: s.say(s.between(0, 800)), BaseCommit: seal.ID(repo, strconv.Itoa(i))[:40],
		Image: "registry.example/" + repo + ":" + strconv.Itoa(i%50), Workdir: "/testbed", LogParser: "pytest", TimeoutMS: 1_800_000,
		GoldPatch: exact(s.say(s.between(300, 3000))), TestPatch: exact(s.say(s.between(300, 3000))),
		PreCommands: []string{}, TestCmds: []string{"pytest -rA " + s.word()}, FailToPass: []string{}, PassToPass: []string{},
	}
	for range 1 + s.r.IntN(3) {
		t.FailToPass = append(t.FailToPass, "tests/test_"+s.word()+".py::test_"+s.word())
	}
	for range s.between(2, 40) {
		t.PassToPass = append(t.PassToPass, "tests/test_"+s.word()+".py::test_"+s.word())
	}
	t.Raw = `{"instance_id":"` + t.TaskID + `","problem":"` + s.word() + `"}`
	t.Digest = seal.ID(t.TaskID, t.Repo)
	return t
}

// RolloutText is about how many bytes of text a rollout has: some 21 000 tokens.
const RolloutText = 84_000

// Rollout is rollout i. Ids grow with i.
func (s *Source) Rollout(i int) record.Rollout {
	s.start(2, uint64(i))
	o := record.Outcomes[s.r.IntN(4)]
	r := record.Rollout{
		RolloutID: fmt.Sprintf("%016x%s", i, seal.ID(strconv.FormatUint(s.seed, 10), strconv.Itoa(i))[:48]),
		TaskID:    seal.ID("task", strconv.Itoa(i/8)), Source: "generated", Repo: s.words[s.r.IntN(40)] + "/" + s.words[s.r.IntN(300)], Language: "python",
		Policy: "scripted", Harness: "mini-swe-v2", Index: int64(i % 8), Seed: int64(s.r.IntN(1 << 30)),
	}
	add := func(m record.Message) { r.Trajectory.Messages = append(r.Trajectory.Messages, m) }
	add(record.Message{Role: "system", Content: s.say(2000), Step: -1, Kept: true})
	add(record.Message{Role: "user", Content: s.say(3000), Step: -1, Kept: true})
	turns := 12 + s.r.IntN(30)
	each := (RolloutText - 5000) / turns
	for step := range turns {
		call := fmt.Sprintf("call_%08x", s.r.Uint32())
		add(record.Message{Role: "assistant", Content: s.say(each / 8), Reasoning: s.say(each / 8), Step: int64(step), Kept: true,
			ToolCalls: []record.ToolCall{{ID: call, Name: "bash", Arguments: `{"command":"grep -rn ` + s.word() + ` ` + s.word() + `"}`}}})
		add(record.Message{Role: "tool", Content: s.say(each * 3 / 4), ToolCallID: call, Step: int64(step), Kept: true})
		n := int64(s.r.IntN(20_000))
		r.Trajectory.Steps = append(r.Trajectory.Steps, record.Step{FinishReason: "tool_calls", DiffSHA256: seal.ID(call), PromptTokens: &n, CompletionTokens: &n, ModelMS: n,
			Actions: []record.Action{{Command: "grep -rn " + s.word(), ToolCallID: call, DurationMS: n}}})
	}
	r.Trajectory.ExitStatus, r.Trajectory.TemplateID = record.ExitSubmitted, "mini-swe-v2"
	r.Trajectory.Diff = exact(s.say(s.between(300, 3000)))
	r.Trajectory.DiffSHA256 = seal.ID(r.Trajectory.Diff.Value)
	r.Verdict = record.Verdict{Outcome: o, Reward: o.Reward(), Reason: "generated", Grader: "v1", Parser: "pytest", ApplyMethod: "git", DurationMS: int64(s.r.IntN(100_000))}
	return r
}

// TextBytes is how much text a rollout's messages hold.
func TextBytes(r record.Rollout) (n int64) {
	for _, m := range r.Trajectory.Messages {
		n += int64(len(m.Content) + len(m.Reasoning))
	}
	return n
}
