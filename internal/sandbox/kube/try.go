package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"orchard/agent/wire"
	"orchard/internal/exit"
	"orchard/internal/seal"
)

// tryTime bounds the making of the sandbox that Try makes.
const tryTime = 2 * time.Minute

// Try makes a sandbox of image ("" is the agent's own), runs the agent's --version in it,
// removes it, and returns what that printed. Errors have exit code exit.Config when
// something must be mended, and exit.Gone when the cluster does not answer or has no room.
func Try(ctx context.Context, opts Options, image string) (string, error) {
	r, err := New(ctx, opts)
	if err != nil {
		return "", err
	}
	defer r.Close()
	if image == "" {
		image = opts.AgentImage
	}
	id, said := "check-"+seal.Random(4), ""
	err = r.try(ctx, id, image, tryTime, func(ctx context.Context) (err error) {
		said, err = r.version(ctx, id)
		return err
	})
	return said, err
}

// version runs the agent's --version in a sandbox.
func (r *Runtime) version(ctx context.Context, id string) (string, error) {
	rt, base, err := r.Agent(ctx, id)
	if err != nil {
		return "", exit.Gonef("%w", err)
	}
	body, err := json.Marshal(wire.ExecRequest{ID: seal.Random(8), Argv: []string{agentProgram, "--version"}, TimeoutMS: 30_000})
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/jobs?wait=30", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return "", exit.Gonef("run a command in sandbox %s: %w", id, err)
	}
	defer resp.Body.Close()
	var job wire.Job
	if err := json.NewDecoder(resp.Body).Decode(&job); err != nil || job.ExitCode == nil || *job.ExitCode != 0 {
		return "", fmt.Errorf("a command in sandbox %s: %s, %s %s %s", id, resp.Status, job.State, job.Reason, job.Stderr.Data)
	}
	return strings.TrimSpace(string(job.Stdout.Data)), nil
}
