package scripted

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/llm/scripted"
)

// Follow is the policy for a task dataset that may be made while it serves: it plays
// the newest version there is. log gets every request.
func Follow(open datasets.Opener, uri string, log io.Writer) http.Handler {
	options := scripted.Defaults()
	options.Log = scripted.LogTo(log)
	return follow(open, uri, options)
}

func follow(open datasets.Opener, uri string, options scripted.Options) http.Handler {
	return &scripted.Follow{Options: options, Every: time.Second, Now: time.Now,
		Load: func(ctx context.Context, have string) (string, []record.Task, error) {
			v, err := datasets.Open(ctx, open, uri)
			if errors.Is(err, datasets.ErrNotFound) {
				return "", nil, nil
			}
			if err != nil || v.Digest() == have {
				return have, nil, err
			}
			tasks, err := load(ctx, v)
			return v.Digest(), tasks, err
		}}
}

// load is the tasks of a version with what the policy needs of them.
func load(ctx context.Context, v *datasets.Version) ([]record.Task, error) {
	if kind := v.Manifest().Schema.Name; kind != "task" {
		return nil, exit.Inputf("%s: holds %s rows, not tasks", v.Location(), kind)
	}
	var tasks []record.Task
	for t, err := range datasets.Rows[record.Task](ctx, v) {
		if err != nil {
			return nil, err
		}
		t.Raw = ""
		if err := scripted.Gold(ctx, &t, v.Blob); err != nil {
			return nil, err
		}
		tasks = append(tasks, t)
	}
	return tasks, nil
}
