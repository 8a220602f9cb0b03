package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"orchard/datasets"
	"orchard/internal/buildinfo"
	"orchard/internal/exit"
	"orchard/internal/logx"
	"orchard/internal/seal"
)

// job is one run of a stage: what both kinds of stages share.
type job struct {
	cfg    Config
	deps   Deps
	stage  Stage
	made   datasets.Stage   // the stage as the manifest names it
	inputs []datasets.Input // what the key is made of
	opened []*datasets.Version
	where  datasets.Location
	log    zerolog.Logger
	began  time.Time

	mu     sync.Mutex
	result Result
}

// start checks the configuration, opens the inputs and computes the key.
func start(ctx context.Context, cfg Config, deps Deps, stage Stage) (*job, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	deps = deps.WithDefaults()
	j := &job{cfg: cfg, deps: deps, stage: stage, began: deps.Now(), log: logger(ctx, cfg, stage)}
	j.result = Result{
		Stage: stage.Name, Version: stage.Version, RunID: cfg.RunID, Mode: string(cfg.Mode),
		Inputs: []string{}, Dropped: map[string]int64{}, Outcomes: map[string]int64{},
	}
	var err error
	if j.where, err = datasets.Parse(cfg.Out); err != nil {
		return nil, fmt.Errorf("--out: %w", err)
	}
	settings, err := seal.Canonical(stage.Settings)
	if err != nil {
		return nil, exit.With(exit.Bug, fmt.Errorf("settings of %s: %w", stage.Name, err))
	}
	j.made = datasets.Stage{Name: stage.Name, Version: stage.Version, Config: json.RawMessage(settings), Seed: cfg.Seed}
	if stage.Model {
		j.made.RunID = cfg.RunID
	}
	if cfg.Mode != ModeCheck { // which may be before there are inputs
		if err := j.openInputs(ctx); err != nil {
			return nil, err
		}
		if err := j.apart(); err != nil {
			return nil, err
		}
		if j.result.Key, err = datasets.Key(j.made, j.inputs); err != nil {
			return nil, err
		}
	}
	level := zerolog.InfoLevel
	if j.terminal() != nil { // people know what they typed
		level = zerolog.DebugLevel
	}
	j.log.WithLevel(level).Str("version", buildinfo.Version).Str("commit", buildinfo.Commit()).RawJSON("settings", settings).
		Strs("in", j.result.Inputs).Str("out", j.where.String()).Str("mode", string(cfg.Mode)).Int("workers", cfg.Workers).
		Int64("seed", cfg.Seed).Dur("deadline", cfg.Deadline).Int("max_retries", cfg.MaxRetries).Stringer("max_infra", cfg.MaxInfra).
		Str("key", j.result.Key).Msg("start")
	return j, nil
}

// WithDefaults is d with the real world where nothing was given.
func (d Deps) WithDefaults() Deps {
	if d.Stdout == nil {
		d.Stdout = os.Stdout
	}
	if d.Stderr == nil {
		d.Stderr = os.Stderr
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Getenv == nil {
		d.Getenv = os.Getenv
	}
	if d.Open == nil {
		d.Open = datasets.Stores
	}
	d.Grace = cmp.Or(d.Grace, 10*time.Second)
	d.Backoff = cmp.Or(d.Backoff, time.Second)
	d.Patience = cmp.Or(d.Patience, patience)
	return d
}

// logger is the context's logger at the configured level, with the stage's fields.
func logger(ctx context.Context, cfg Config, stage Stage) zerolog.Logger {
	base := zerolog.Ctx(ctx)
	level, err := zerolog.ParseLevel(cfg.LogLevel)
	if err != nil || base.GetLevel() == zerolog.Disabled { // nobody asked for a log
		return *base
	}
	c := base.Level(level).With().Str(logx.Stage, stage.Name).Str(logx.Run, cfg.RunID)
	if cfg.Shard != (Shard{}) {
		c = c.Stringer(logx.Shard, cfg.Shard)
	}
	return c.Logger()
}

// update changes the numbers.
func (j *job) update(change func(*Result)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	change(&j.result)
}

// snapshot is a copy of the numbers that nothing changes.
func (j *job) snapshot() Result {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := j.result
	r.Dropped, r.Outcomes = maps.Clone(r.Dropped), maps.Clone(r.Outcomes)
	r.Files, r.Shards = slices.Clone(r.Files), slices.Clone(r.Shards)
	if r.Units != nil {
		u := *r.Units
		r.Units = &u
	}
	return r
}

func (j *job) progress() Progress {
	r := j.snapshot()
	p := Progress{Stage: r.Stage, RunID: r.RunID, Shard: j.cfg.Shard.String(), Outcomes: r.Outcomes, Dropped: r.Dropped, Usage: r.Usage,
		DurMS: j.deps.Now().Sub(j.began).Milliseconds()}
	if r.Units != nil {
		p.Units = *r.Units
	} else {
		p.RowsRead = r.RowsIn
	}
	return p
}

// unitsPrefix is where the finished units of this key are.
func (j *job) unitsPrefix() string { return datasets.UnitsPrefix(j.where.Name, j.result.Key) }
