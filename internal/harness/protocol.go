package harness

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"orchard/internal/llm"
)

// The names of the harnesses.
const (
	MiniSweV1     = "mini-swe-v1"      // one bash block in the text of each answer
	MiniSweV2     = "mini-swe-v2"      // calls of a bash tool
	MiniSweV2Text = "mini-swe-v2-text" // version 2 for models without tool calls
)

// Names lists every harness, in the order of the help.
func Names() []string {
	names := make([]string, len(protocols))
	for i, p := range protocols {
		names[i] = p.name
	}
	return names
}

// Options change a harness. The zero value is the harness as it ships.
type Options struct {
	// PromptFile has prompts in the place of ours, "" for none. It is Go text/template:
	// {{define "system"}}…{{end}}, and so on for each of "system", "instance",
	// "format_error", "timeout" and "long_output" that it replaces. The variables are
	// .Task .Workdir .Steps .Timeout; in format_error also .Error .Blocks .FinishReason;
	// in timeout also .Command .Output. A prompt that puts the statement between
	// <pr_description> and </pr_description> is found fastest by the scripted policy.
	PromptFile string
}

// New is the harness of that name. An unknown name and a prompt file that cannot be
// used are errors that say what there is instead.
func New(name string, o Options) (Harness, error) {
	i := slices.IndexFunc(protocols, func(p protocol) bool { return p.name == name })
	if i < 0 {
		return nil, fmt.Errorf("--harness: no harness %q; there are %s", name, strings.Join(Names(), ", "))
	}
	ps, err := loadPrompts(name, o.PromptFile)
	if err != nil {
		return nil, err
	}
	return &mini{protocol: protocols[i], prompts: ps}, nil
}

// protocol is where the versions of mini-swe-agent differ.
type protocol struct {
	name      string
	shell     []string          // the command follows as one argument
	env       map[string]string // of every command
	sentinels []string          // the first line of an output that hands in
	endRole   string            // of the message that ends the conversation

	// Text protocols have the word after the three backticks, the others the tool.
	fence string
	tools []llm.Tool

	// A rejected answer stays in the conversation, or only the complaint does; after
	// so many in a row the episode ends, 0 is never.
	keepRejected    bool
	maxFormatErrors int

	// A command over its time is told in a message of its own instead of an observation.
	timeoutMessage bool
	// The model is sent its own reasoning again.
	echoReasoning bool
	// The end message names the limit that ended the episode; empty otherwise.
	namesLimit bool
}

// quiet keeps tools from waiting for a terminal and from drawing progress bars.
var quiet = map[string]string{"PAGER": "cat", "MANPAGER": "cat", "LESS": "-R", "PIP_PROGRESS_BAR": "off", "TQDM_DISABLE": "1"}

// quietBash also has bash, which is no login shell in version 2, read the file that
// activates an image's environment.
var quietBash = map[string]string{"PAGER": "cat", "MANPAGER": "cat", "LESS": "-R", "PIP_PROGRESS_BAR": "off", "TQDM_DISABLE": "1",
	"BASH_ENV": "/root/.bashrc"}

const submitted = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"

// repeatedFormatErrors is how many rejected answers in a row version 2 puts up with.
const repeatedFormatErrors = 3

var protocols = []protocol{
	{
		name: MiniSweV2, shell: []string{"bash", "-c"}, env: quietBash, sentinels: []string{submitted}, endRole: "exit",
		tools: []llm.Tool{bashTool}, maxFormatErrors: repeatedFormatErrors, echoReasoning: true, namesLimit: true,
	},
	{
		name: MiniSweV2Text, shell: []string{"bash", "-c"}, env: quietBash, sentinels: []string{submitted}, endRole: "exit",
		fence: "mswea_bash_command", maxFormatErrors: repeatedFormatErrors, echoReasoning: true, namesLimit: true,
	},
	{
		name: MiniSweV1, shell: []string{"bash", "-lc"}, env: quiet, endRole: "user",
		sentinels: []string{"MINI_SWE_AGENT_FINAL_OUTPUT", submitted},
		fence:     "bash", keepRejected: true, timeoutMessage: true,
	},
}

// bashTool is the one tool of version 2.
var bashTool = llm.Tool{
	Name:        "bash",
	Description: "Run a bash command and see its output",
	Parameters: []byte(`{"type":"object","properties":{"command":{"type":"string",` +
		`"description":"The command, as bash reads it"}},"required":["command"]}`),
}

// CommandLine is how the harness of this name runs a command: the words before it, and its
// environment; ok is false when there is no such harness.
func CommandLine(name string) (argv []string, env map[string]string, ok bool) {
	for _, p := range protocols {
		if p.name == name {
			return slices.Clone(p.shell), maps.Clone(p.env), true
		}
	}
	return nil, nil, false
}
