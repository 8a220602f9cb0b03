package control

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"orchard/agent/wire"
	"orchard/internal/lossy"
	"orchard/internal/sandbox/control/patch"
)

// How a patch was applied.
const (
	methodGit     = "git"     // git apply in the sandbox
	methodGitdiff = "gitdiff" // from outside, as the image has no git
)

// maxPatch bounds a patch, which travels to the agent in one signed request.
const maxPatch = 16 << 20

// patched is the answer to apply_patch; Method is our own field.
type patched struct {
	Success  bool    `json:"success"`
	Stdout   string  `json:"stdout"`
	Stderr   string  `json:"stderr"`
	ExitCode *int    `json:"exit_code"`
	Error    *string `json:"error"`
	Method   string  `json:"method"`
}

// applyPatch runs git apply in the sandbox's working folder with the patch as its
// standard input: no file is left behind and no line of the patch is ever a command.
func (s *Service) applyPatch(w http.ResponseWriter, r *http.Request) error {
	b, err := readBody(w, r, s.set.MaxBody)
	if err != nil {
		return err
	}
	b.required("patch")
	diff, timeout := b.text("patch"), b.seconds("timeout_seconds", s.set.MaxTimeout)
	if err := b.err(); err != nil {
		return err
	}
	if len(diff) > maxPatch {
		return fail(http.StatusRequestEntityTooLarge, "patch is over %d bytes; upload it with PUT /sandboxes/{id}/raw?path= and run git apply", maxPatch)
	}
	if timeout == 0 {
		timeout = 30 * time.Second
	}
	st, _, err := s.ready(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	if diff != "" && !strings.HasSuffix(diff, "\n") {
		diff += "\n"
	}
	req := wire.ExecRequest{
		Argv: []string{"git", "apply", "-"}, Stdin: []byte(diff), Cwd: st.Spec.Workdir, TimeoutMS: timeout.Milliseconds(),
	}
	if err := s.identify(r, &req, st, b); err != nil {
		return err
	}
	job, err := s.submit(r.Context(), st, req, time.Now().Add(timeout+answerGrace))
	if err != nil {
		return err
	}
	if job.Reason == wire.ReasonSpawn {
		return s.deliver(w, r, st, job, s.patchOutside(r.Context(), st, diff, timeout))
	}
	v := jobView(job, false)
	if v.Error == nil && v.ExitCode == nil {
		v.Error = ptr(fmt.Sprintf("git apply did not end within %gs", timeout.Seconds()))
	}
	return s.deliver(w, r, st, job, patched{v.Status == statusSucceeded, v.Stdout, v.Stderr, v.ExitCode, v.Error, methodGit})
}

// patchOutside applies diff through the files API.
func (s *Service) patchOutside(ctx context.Context, st State, diff string, timeout time.Duration) patched {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	a, err := s.agent(ctx, st.Spec.ID)
	var out patch.Outcome
	if err == nil {
		out, err = patch.Apply(ctx, &agentTree{s, a, st}, diff)
	}
	if err != nil {
		return patched{Error: ptr(err.Error()), Method: methodGitdiff}
	}
	return patched{Success: out.ExitCode == 0, Stderr: out.Stderr, ExitCode: &out.ExitCode, Method: methodGitdiff}
}

// agentTree is a sandbox's working folder through its agent.
type agentTree struct {
	service *Service
	agent   agentClient
	state   State
}

var _ patch.Tree = (*agentTree)(nil)

func (t *agentTree) path(name string) string { return path.Join(t.state.Spec.Workdir, name) }

// Read implements patch.Tree.
func (t *agentTree) Read(ctx context.Context, name string) ([]byte, fs.FileMode, error) {
	resp, err := t.agent.get(ctx, t.path(name), nil)
	var refusal *agentError
	if errors.As(err, &refusal) && refusal.wire.Code == wire.CodeNotFound {
		return nil, 0, fs.ErrNotExist
	} else if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	mode, err := strconv.ParseUint(resp.Header.Get("X-File-Mode"), 8, 32)
	if err != nil {
		return nil, 0, fmt.Errorf("mode of %s: %w", name, err)
	}
	data, err := io.ReadAll(resp.Body)
	return data, fs.FileMode(mode) & fs.ModePerm, err
}

// Write implements patch.Tree.
func (t *agentTree) Write(ctx context.Context, name string, data []byte, mode fs.FileMode) error {
	_, err := t.agent.put(ctx, t.path(name), fmt.Sprintf("%04o", mode), bytes.NewReader(data), int64(len(data)))
	return err
}

// Remove implements patch.Tree. The agent has no route that deletes, so rm does it.
func (t *agentTree) Remove(ctx context.Context, name string) error {
	const limit = 10 * time.Second
	req := wire.ExecRequest{
		ID: newJobID(t.state, limit, time.Now()), Argv: []string{"rm", "-f", "--", t.path(name)},
		TimeoutMS: limit.Milliseconds(), Concurrent: true,
	}
	job, err := t.service.submit(ctx, t.state, req, time.Now().Add(limit+answerGrace))
	switch {
	case err != nil:
		return err
	case job.State != wire.Done || job.ExitCode == nil || *job.ExitCode != 0:
		return fmt.Errorf("rm %s: %s%s", name, job.Error, lossy.Text(job.Stderr.Data))
	}
	return nil
}
