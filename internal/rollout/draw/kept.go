package draw

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"orchard/datasets"
	"orchard/internal/exit"
)

// Kept is the settings of where draws are kept, and of whose are taken.
type Kept struct {
	// Rollouts is the name of the dataset of rollouts beside --out; "" is that of --out
	// with -rollouts.
	Rollouts string
	Weights  string // the policy's weights, when its name does not say which
	Fresh    bool   // take no rollouts of other runs
}

// Flags are the flags that fill k.
func Flags(k *Kept) []cli.Flag {
	const category = "DRAWS"
	return []cli.Flag{
		&cli.StringFlag{Name: "rollouts-out", Category: category, EnvVars: []string{"ORCHARD_ROLLOUTS_OUT"}, Destination: &k.Rollouts, Usage: "`NAME`, beside --out, of the dataset of all rollouts that were drawn; stages that share it share rollouts. The default is that of --out with -rollouts"},
		&cli.StringFlag{Name: "weight-version", Category: category, EnvVars: []string{"ORCHARD_WEIGHT_VERSION"}, Destination: &k.Weights, Usage: "`NAME` of the policy's weights: rollouts of others never stand in for its own"},
		&cli.BoolFlag{Name: "fresh", Category: category, EnvVars: []string{"ORCHARD_FRESH"}, Destination: &k.Fresh, Usage: "take no rollout of another run, though policy, weights, settings and seed are the same"},
	}
}

// Validate says everything that is wrong, by the names of the flags.
func (k Kept) Validate() error {
	var errs []error
	if k.Rollouts != "" {
		if err := datasets.CheckName(k.Rollouts); err != nil {
			errs = append(errs, fmt.Errorf("--rollouts-out: %w", err))
		}
	}
	if len(k.Weights) > 200 {
		errs = append(errs, fmt.Errorf("--weight-version: must be at most 200 bytes"))
	}
	return exit.With(exit.Config, errors.Join(errs...))
}

// KeptSettings is the part of Kept that belongs to a stage's key.
type KeptSettings struct {
	Rollouts string `json:"rollouts_out"`
	Weights  string `json:"weight_version"`
	Fresh    bool   `json:"fresh"`
}

// Settings is k as settings.
func (k Kept) Settings() KeptSettings { return KeptSettings(k) }

// Name is the name of the dataset of rollouts of a stage whose own is out.
func (k Kept) Name(out string) (string, error) {
	if k.Rollouts == "" {
		return out + "-rollouts", datasets.CheckName(out + "-rollouts")
	}
	if k.Rollouts == out {
		return "", exit.Configf("--rollouts-out: %q is the name of --out; the two hold different rows", out)
	}
	return k.Rollouts, nil
}
