package pipeline

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"orchard/internal/exit"
)

// step runs a container step, again while its retryStrategy says so.
func (r *run) step(ctx context.Context, c call, t *Template, in scope) ended {
	if t.Container == nil {
		return ended{phase: Error, err: exit.Configf("%s: template %s is neither a container nor a dag", c.node, t.Name)}
	}
	if r.slots != nil {
		select {
		case r.slots <- struct{}{}:
			defer func() { <-r.slots }()
		case <-ctx.Done():
			return r.unbegun(c.node)
		}
	}
	for attempt := 0; ; attempt++ {
		here := in.with(scope{"retries": strconv.Itoa(attempt)})
		s, err := prepare(c.node, t, here, attempt)
		if err != nil {
			return ended{phase: Error, err: exit.Configf("%s: %w", c.node, err)}
		}
		r.event(Event{Node: c.node, Phase: Running, Attempt: attempt, Leaf: true})
		began := r.Now()
		res, err := r.Step(ctx, s)
		e := Event{Node: c.node, Phase: Succeeded, Attempt: attempt, Code: res.ExitCode, Message: res.Message, Leaf: true}
		switch {
		case err != nil:
			e.Phase, e.Code, e.Message = Error, exit.Code(err), err.Error()
		case res.ExitCode != 0:
			e.Phase = Failed
		}
		if e.Phase == Succeeded {
			r.event(e)
			out, err := stepOutputs(t, res)
			return ended{phase: Succeeded, outputs: out, err: err}
		}
		if ctx.Err() != nil {
			e.Phase, e.Message = Failed, "deadline or stop: "+e.Message
			r.event(e)
			return ended{phase: Failed}
		}
		wait, again, err := t.RetryStrategy.next(here.with(scope{
			"lastRetry.exitCode": strconv.Itoa(e.Code),
			"lastRetry.status":   string(e.Phase),
			"lastRetry.message":  e.Message,
			"lastRetry.duration": strconv.FormatFloat(r.Now().Sub(began).Seconds(), 'f', -1, 64),
		}), attempt)
		if err != nil {
			return ended{phase: Error, err: exit.Configf("%s: retryStrategy: %w", c.node, err)}
		}
		if !again {
			r.event(e)
			return ended{phase: e.Phase}
		}
		if r.Event != nil {
			e.Time, e.Phase, e.Message = r.Now(), Running, fmt.Sprintf("exit code %d, again in %s: %s", e.Code, wait, e.Message)
			r.Event(e)
		}
		if r.Pause(ctx, wait) != nil {
			e.Phase, e.Message = Failed, "stopped while waiting to retry"
			r.event(e)
			return ended{phase: Failed}
		}
	}
}

// unbegun is the end of a node that a deadline or a stop kept from starting: work is
// left, so it is no success.
func (r *run) unbegun(node string) ended {
	r.event(Event{Node: node, Phase: Failed, Code: exit.Retry, Message: "deadline or stop before it began", Leaf: true})
	return ended{phase: Failed}
}

func prepare(node string, t *Template, in scope, attempt int) (Step, error) {
	s := Step{Node: node, Attempt: attempt, Env: map[string]string{}, Outputs: map[string]string{}}
	for _, a := range t.Container.Args {
		v, err := in.expand(a)
		if err != nil {
			return s, fmt.Errorf("argument %q: %w", a, err)
		}
		s.Args = append(s.Args, v)
	}
	for _, e := range t.Container.Env {
		if e.ValueFrom != nil {
			continue
		}
		v, err := in.expand(e.Value)
		if err != nil {
			return s, fmt.Errorf("environment %s: %w", e.Name, err)
		}
		s.Env[e.Name] = v
	}
	for _, p := range t.Outputs.Parameters {
		if p.ValueFrom == nil || p.ValueFrom.Path == "" {
			return s, fmt.Errorf("output %q: a step's output is a file: valueFrom.path", p.Name)
		}
		s.Outputs[p.Name] = p.ValueFrom.Path
	}
	return s, nil
}

// stepOutputs are the files a step wrote, or their defaults.
func stepOutputs(t *Template, res StepResult) (map[string]string, error) {
	out := map[string]string{}
	for _, p := range t.Outputs.Parameters {
		v, ok := res.Outputs[p.Name]
		if !ok && p.ValueFrom.Default == nil {
			return nil, fmt.Errorf("template %s: the step did not write output %q (%s)", t.Name, p.Name, p.ValueFrom.Path)
		}
		if !ok {
			v = string(*p.ValueFrom.Default)
		}
		out[p.Name] = v
	}
	return out, nil
}

// next says whether to run again after a failure, and after what pause. Limit is the
// number of further runs, as in Argo; no strategy means no retry.
func (s *RetryStrategy) next(last scope, attempt int) (time.Duration, bool, error) {
	if s == nil {
		return 0, false, nil
	}
	limit := math.MaxInt
	if s.Limit != "" {
		text, err := last.expand(string(s.Limit))
		if err != nil {
			return 0, false, err
		}
		if limit, err = strconv.Atoi(text); err != nil {
			return 0, false, fmt.Errorf("limit %q: not a number", text)
		}
	}
	if attempt >= limit {
		return 0, false, nil
	}
	if s.Expression != "" {
		yes, err := last.evalBool(s.Expression)
		if err != nil || !yes {
			return 0, false, err
		}
	}
	wait, err := s.Backoff.pause(attempt)
	return wait, err == nil, err
}

func (b *Backoff) pause(attempt int) (time.Duration, error) {
	if b == nil || b.Duration == "" {
		return 0, nil
	}
	wait, err := duration(b.Duration)
	if err != nil {
		return 0, fmt.Errorf("backoff.duration: %w", err)
	}
	if b.Factor != "" {
		f, err := strconv.ParseFloat(string(b.Factor), 64)
		if err != nil {
			return 0, fmt.Errorf("backoff.factor %q: not a number", b.Factor)
		}
		wait = time.Duration(float64(wait) * math.Pow(f, float64(attempt)))
	}
	if b.Cap != "" {
		most, err := duration(b.Cap)
		if err != nil {
			return 0, fmt.Errorf("backoff.cap: %w", err)
		}
		wait = min(wait, most)
	}
	return wait, nil
}

// duration takes Go's form and, like Argo, a bare number of seconds.
func duration(text string) (time.Duration, error) {
	if n, err := strconv.Atoi(text); err == nil {
		return time.Duration(n) * time.Second, nil
	}
	return time.ParseDuration(text)
}

func withDeadline(ctx context.Context, in scope, seconds IntString) (context.Context, context.CancelFunc, error) {
	if seconds == "" {
		return ctx, func() {}, nil
	}
	text, err := in.expand(string(seconds))
	if err != nil {
		return nil, nil, fmt.Errorf("activeDeadlineSeconds: %w", err)
	}
	n, err := strconv.Atoi(text)
	if err != nil || n <= 0 {
		return nil, nil, exit.Configf("activeDeadlineSeconds %q: must be a positive number of seconds", text)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(n)*time.Second)
	return ctx, cancel, nil
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
