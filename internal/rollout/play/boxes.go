package play

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"orchard/internal/exit"
	"orchard/internal/grade"
	"orchard/internal/llm"
	"orchard/internal/quantity"
	"orchard/internal/rollout"
	"orchard/internal/runner"
	"orchard/internal/sandbox"
	"orchard/internal/sandbox/httpclient"
)

// Boxes are the settings of the sandboxes: all that a stage needs which grades and asks
// no model.
type Boxes struct {
	DefaultImage string
	CPU, Memory  string
	// CPURequest is what of CPU a scheduler keeps free; "" is all. Of memory it is always all: what
	// runs short of it dies, and looks as if it had failed.
	CPURequest  string
	TestTimeout time.Duration
	SandboxURL  string
	SandboxKey  llm.Secret
}

// DefaultBoxes are the settings without any flag.
func DefaultBoxes() Boxes {
	return Boxes{DefaultImage: "host", CPU: "1", Memory: "2Gi", TestTimeout: 30 * time.Minute}
}

// BoxFlags are the flags that fill b. It takes the key from SANDBOX_API_KEY at once.
func BoxFlags(b *Boxes) []cli.Flag {
	const category = "SANDBOXES"
	if b.SandboxKey == "" {
		b.SandboxKey = llm.Secret(os.Getenv("SANDBOX_API_KEY"))
	}
	return []cli.Flag{
		&cli.StringFlag{Name: "default-image", Category: category, EnvVars: []string{"ORCHARD_DEFAULT_IMAGE"}, Destination: &b.DefaultImage, Value: b.DefaultImage, Usage: "`IMAGE` of tasks that name none"},
		&cli.StringFlag{Name: "sandbox-cpu", Category: category, EnvVars: []string{"ORCHARD_SANDBOX_CPU"}, Destination: &b.CPU, Value: b.CPU, Usage: "`CPUS` of a sandbox"},
		&cli.StringFlag{Name: "sandbox-memory", Category: category, EnvVars: []string{"ORCHARD_SANDBOX_MEMORY"}, Destination: &b.Memory, Value: b.Memory, Usage: "`BYTES` of a sandbox, such as 2Gi"},
		&cli.StringFlag{Name: "sandbox-cpu-request", Category: category, EnvVars: []string{"ORCHARD_SANDBOX_CPU_REQUEST"}, Destination: &b.CPURequest, Usage: "`CPUS` of those that a cluster keeps free for a sandbox; all by default"},
		&cli.DurationFlag{Name: "test-timeout", Category: category, EnvVars: []string{"ORCHARD_TEST_TIMEOUT"}, Destination: &b.TestTimeout, Value: b.TestTimeout, Usage: "`TIME` that a task's tests may take when the task does not say"},
		&cli.StringFlag{Name: "sandbox-url", Category: category, EnvVars: []string{"SANDBOX_BASE_URL"}, Destination: &b.SandboxURL, Usage: "`URL` of the sandbox service; its key comes from SANDBOX_API_KEY"},
	}
}

// Validate says everything that is wrong, by the names of the flags.
func (b Boxes) Validate(run runner.Config) error {
	var errs []error
	if Asks(run) && b.SandboxURL == "" {
		errs = append(errs, fmt.Errorf("--sandbox-url (SANDBOX_BASE_URL): missing; `orchard-controller --runtime=local` is a sandbox service, and `orchard run` starts one by itself"))
	}
	errs = append(errs, positive("--test-timeout", b.TestTimeout), b.amounts())
	return exit.With(exit.Config, errors.Join(errs...))
}

// amounts says which flag the service would refuse, which would look like a fault of every task.
func (b Boxes) amounts() error {
	var errs []error
	of := func(flag, text string) float64 {
		if text == "" {
			return 0 // the service's default
		}
		v, err := quantity.Parse(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", flag, err))
		}
		return v
	}
	most, least := of("--sandbox-cpu", b.CPU), of("--sandbox-cpu-request", b.CPURequest)
	of("--sandbox-memory", b.Memory)
	if len(errs) == 0 && most > 0 && least > most {
		errs = append(errs, fmt.Errorf("--sandbox-cpu-request: %s is more than --sandbox-cpu, %s", b.CPURequest, b.CPU))
	}
	return errors.Join(errs...)
}

// Grading wires graders without a player, and the check that the sandbox service answers.
// Where run asks nobody both are nil.
func (b Boxes) Grading(run runner.Config, now func() time.Time) (func(rollout.Store) rollout.Grader, Check, error) {
	if !Asks(run) {
		return nil, nil, nil
	}
	boxes, err := b.client()
	if err != nil {
		return nil, nil, err
	}
	check := func(ctx context.Context) error { return boxes.Check(ctx) }
	return b.grader(boxes, b.spec(run.RunID, 0), now), check, nil
}

func (b Boxes) client() (*httpclient.Client, error) {
	boxes, err := httpclient.New(httpclient.Options{URL: b.SandboxURL, Key: string(b.SandboxKey)})
	if err != nil {
		return nil, exit.Configf("--sandbox-url: %w", err)
	}
	return boxes, nil
}

// spec is a sandbox that may work for as long as wall before it grades.
func (b Boxes) spec(runID string, wall time.Duration) sandbox.Spec {
	return sandbox.Spec{
		Image: b.DefaultImage, CPU: b.CPU, Memory: b.Memory, Reserve: sandbox.Reserve{CPU: b.CPURequest}, Lease: 2 * time.Minute,
		Lifetime: wall + b.TestTimeout + 30*time.Minute, Labels: map[string]string{"orchard-run": runID},
	}
}

func (b Boxes) grader(boxes sandbox.Client, spec sandbox.Spec, now func() time.Time) func(rollout.Store) rollout.Grader {
	return func(store rollout.Store) rollout.Grader {
		return &grade.Grader{Sandboxes: boxes, Spec: spec, Keep: store.Keep, Blob: store.Blob, TestTimeout: b.TestTimeout, Now: now}
	}
}
