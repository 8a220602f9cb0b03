package grade_test

import (
	"context"
	"errors"
	"testing"

	"orchard/datasets/record"
	"orchard/internal/grade"
	"orchard/internal/sandbox"
)

// refusing is a service that starts no sandbox of any image.
type refusing struct{}

func (refusing) Create(_ context.Context, s sandbox.Spec) (sandbox.Sandbox, error) {
	return nil, &sandbox.Refused{Image: s.Image, Reason: "no such image"}
}

// An image that the task names is the task's fault, the default image is not.
func TestCanaryOfARefusedImage(t *testing.T) {
	t.Parallel()
	g := &grade.Grader{Sandboxes: refusing{}, Spec: sandbox.Spec{Image: "default"}, Keep: func(_ context.Context, b []byte) (record.Text, error) {
		return record.Text{Value: string(b), Bytes: int64(len(b))}, nil
	}}
	task := record.Task{
		TaskID: "t", Workdir: "/testbed", BaseCommit: "0123456789012345678901234567890123456789", Image: "its-own",
		TestCmds: []string{"true"}, LogParser: "exit-code", FailToPass: []string{"true"},
		GoldPatch: record.Text{Value: "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n", Bytes: 58},
	}
	v, err := g.Canary(t.Context(), task)
	if err != nil || v.Outcome != record.TaskInvalid || v.Reward != nil || v.Reason != `sandbox of image "its-own" refused: no such image` {
		t.Errorf("%+v, %v", v, err)
	}
	task.Image = ""
	var refused *sandbox.Refused
	if v, err := g.Canary(t.Context(), task); !errors.As(err, &refused) {
		t.Errorf("%+v, %v", v, err)
	}
}
