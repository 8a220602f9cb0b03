package harness

import (
	"embed"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"

	"orchard/internal/seal"
)

//go:embed prompts
var shipped embed.FS

// vars are the variables of a prompt. All are set in every template; those that do
// not apply are empty.
type vars struct {
	Task    string // the problem statement
	Workdir string // where the repository lies
	Steps   int    // the limit of answers
	Timeout int    // of a command, in seconds

	Error        string // format_error: what is wrong
	Blocks       int    // format_error of text protocols: blocks found
	FinishReason string // format_error: "length" when the answer was cut off
	Command      string // timeout: the command that was stopped
	Output       string // timeout: what it had printed, in its tags
}

const variables = ".Task .Workdir .Steps .Timeout; in format_error also .Error .Blocks .FinishReason; in timeout also .Command .Output"

// The templates of a prompt file. The first two are prompts, the others answers to
// what the model did.
var templates = []string{"system", "instance", "format_error", "timeout", "long_output"}

// prompts are the words of a harness. Line breaks around a template are not part of it.
// The id is the harness's name, or "custom", and the start of a hash of the text, so
// that trajectories with different prompts can be told apart.
type prompts struct {
	id string
	t  *template.Template
}

// loadPrompts is the prompts of a harness, with those of a user's file instead where
// it has them. What cannot be rendered is found here and not in the first rollout.
func loadPrompts(name, file string) (prompts, error) {
	ours, err := shipped.ReadFile("prompts/" + name + ".tmpl")
	if err != nil {
		return prompts{}, err
	}
	t, err := template.New("").Parse(string(ours))
	if err != nil {
		return prompts{}, err
	}
	p := prompts{id: name + "@" + seal.Bytes(ours)[:12], t: t}
	if file != "" {
		theirs, err := os.ReadFile(file)
		if err != nil {
			return prompts{}, fmt.Errorf("--prompt-file: %w", err)
		}
		if err := p.replace(string(theirs)); err != nil {
			return prompts{}, fmt.Errorf("--prompt-file %s: %w", file, err)
		}
		p.id = "custom@" + seal.Bytes(slices.Concat(ours, theirs))[:12]
	}
	for _, name := range templates {
		for _, reason := range []string{"stop", "length"} {
			if _, err := p.render(name, vars{Task: "task", Workdir: "/testbed", FinishReason: reason}); err != nil {
				return prompts{}, fmt.Errorf("--prompt-file %s: %w", file, err)
			}
		}
	}
	return p, nil
}

// replace takes over the templates that text defines.
func (p prompts) replace(text string) error {
	theirs, err := template.New("prompt file").Parse(text)
	if err != nil {
		return err
	}
	if theirs.Tree != nil && !parse.IsEmptyTree(theirs.Root) {
		return fmt.Errorf("it has text outside of templates: %q; put it between {{define \"system\"}} or {{define \"instance\"}} and {{end}}",
			head(strings.TrimSpace(theirs.Root.String()), 40))
	}
	found := false
	for _, t := range theirs.Templates() {
		if t.Name() == theirs.Name() {
			continue
		}
		if !slices.Contains(templates, t.Name()) {
			return fmt.Errorf("no template is called %q; there are %s", t.Name(), strings.Join(templates, ", "))
		}
		if _, err := p.t.AddParseTree(t.Name(), t.Tree); err != nil {
			return err
		}
		found = true
	}
	if !found {
		return fmt.Errorf("it defines no template; there are %s", strings.Join(templates, ", "))
	}
	return nil
}

// render is a template filled in.
func (p prompts) render(name string, v vars) (string, error) {
	var b strings.Builder
	if err := p.t.ExecuteTemplate(&b, name, v); err != nil {
		return "", fmt.Errorf("template %s: %w (variables: %s)", name, err, variables)
	}
	return strings.Trim(b.String(), "\n"), nil
}
