package harness_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"orchard/internal/harness"
	"orchard/internal/llm"
)

func TestNewNamesWhatThereIs(t *testing.T) {
	t.Parallel()
	for _, name := range harness.Names() {
		h, err := harness.New(name, harness.Options{})
		if err != nil || h.Name() != name {
			t.Errorf("%s: %v, %v", name, h, err)
		}
	}
	_, err := harness.New("swe-agent", harness.Options{})
	for _, name := range harness.Names() {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want %s in it", err, name)
		}
	}
}

func TestPromptFile(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, file string
		says       []string // of the error; none: it works
	}{
		{"two templates", "{{/* mine */}}\n{{define \"system\"}}\nBe brief.\n{{end}}\n{{define \"instance\"}}Fix: {{.Task}} in {{.Workdir}}{{end}}\n", nil},
		{"unknown variable", `{{define "system"}}{{.Statement}}{{end}}`, []string{"system", "Statement", ".Task .Workdir"}},
		{"variable hidden in a branch", `{{define "format_error"}}{{if eq .FinishReason "length"}}{{.Nope}}{{end}}{{end}}`, []string{"format_error", "Nope"}},
		{"unknown template", `{{define "sytem"}}x{{end}}`, []string{`"sytem"`, "system, instance"}},
		{"text outside", "You are great.\n{{define \"system\"}}x{{end}}", []string{"You are great.", "outside"}},
		{"no template", "\n", []string{"no template", "system, instance"}},
		{"not closed", `{{define "system"}}x`, []string{"unexpected EOF"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "prompts.tmpl")
			if err := os.WriteFile(file, []byte(tt.file), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := harness.New(harness.MiniSweV2, harness.Options{PromptFile: file})
			if len(tt.says) == 0 && err != nil {
				t.Error(err)
			}
			for _, s := range tt.says {
				if err == nil || !strings.Contains(err.Error(), s) || !strings.Contains(err.Error(), "--prompt-file "+file) {
					t.Errorf("got %v, want %q and the file", err, s)
				}
			}
		})
	}
	if _, err := harness.New(harness.MiniSweV2, harness.Options{PromptFile: "/nonexistent"}); err == nil || !strings.Contains(err.Error(), "--prompt-file") {
		t.Errorf("missing file: %v", err)
	}
}

func TestPromptFileIsUsedAndNamed(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "prompts.tmpl")
	if err := os.WriteFile(file, []byte("{{define \"system\"}}\nBe brief.\n\n{{end}}{{define \"instance\"}}Fix {{.Task}} in {{.Steps}} steps{{end}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := harness.New(harness.MiniSweV2, harness.Options{PromptFile: file})
	if err != nil {
		t.Fatal(err)
	}
	var e harness.Episode
	ours, _, err := play(t, harness.MiniSweV2, []llm.Response{calls("", submit)}, func(ep *harness.Episode) {
		ep.Shell = &shell{results: commands}
		ep.Statement = "{{.Task}} <b>"
		e = *ep
	})
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := h.Run(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := theirs.Messages[0].Content, theirs.Messages[1].Content; a != "Be brief." || b != "Fix {{.Task}} <b> in 20 steps" {
		t.Errorf("prompts %q and %q", a, b)
	}
	if !strings.HasPrefix(ours.TemplateID, "mini-swe-v2@") || !strings.HasPrefix(theirs.TemplateID, "custom@") {
		t.Errorf("template ids %q and %q", ours.TemplateID, theirs.TemplateID)
	}
}
