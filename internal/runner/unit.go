package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/objstore"
)

const (
	unitFormat = 1
	unitLimit  = 1 << 20 // bytes of a unit's object; a longer row goes into a blob
	saveTime   = 30 * time.Second
)

// unitObject is the object of a finished unit, at units/<key>/<unit>.json.
type unitObject struct {
	Format int    `json:"format"`
	Unit   string `json:"unit"`
	Task   string `json:"task"`
	// One of the three is set.
	Row     json.RawMessage `json:"row,omitempty"`
	RowBlob string          `json:"row_blob,omitempty"` // sha256 of the row's JSON, when it is over the limit
	Dropped string          `json:"dropped,omitempty"`  // reason
	Detail  string          `json:"detail,omitempty"`   // of Dropped
}

// finished is a unit's end: a row, or the reason why there is none.
type finished[Out record.Row] struct {
	row     Out
	dropped string
}

// ledger is the finished units of one key in the store of the result.
type ledger[Out record.Row] struct {
	out    *output[Out]
	prefix string // <name>/units/<key>
}

func (l ledger[Out]) key(u Unit) string { return l.prefix + "/" + u.ID + ".json" }

// load is the unit's end, or objstore.ErrNotFound.
func (l ledger[Out]) load(ctx context.Context, u Unit) (f finished[Out], err error) {
	b, _, err := objstore.ReadAll(ctx, l.out.store, l.key(u), 2*unitLimit)
	if err != nil {
		return f, err
	}
	var o unitObject
	damaged := func(err error) (finished[Out], error) {
		return f, exit.Inputf("finished unit %s/%s is damaged: %w; delete it to have it done again", l.out.store, l.key(u), err)
	}
	if err := json.Unmarshal(b, &o); err != nil {
		return damaged(err)
	}
	if o.Format != unitFormat || o.Unit != u.ID {
		return damaged(fmt.Errorf("it says format %d and unit %q", o.Format, o.Unit))
	}
	if o.Dropped != "" {
		return finished[Out]{dropped: o.Dropped}, nil
	}
	row := []byte(o.Row)
	if o.RowBlob != "" {
		if row, err = l.out.blob(ctx, o.RowBlob); err != nil {
			return damaged(err)
		}
	}
	if err := json.Unmarshal(row, &f.row); err != nil {
		return damaged(err)
	}
	return f, nil
}

// save stores the unit's end. Somebody else's, when it was there first, stays: reused
// says so. A stop does not keep a finished unit from being saved.
func (l ledger[Out]) save(ctx context.Context, u Unit, f finished[Out], detail string) (reused bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTime)
	defer cancel()
	o := unitObject{Format: unitFormat, Unit: u.ID, Task: u.Task, Dropped: f.dropped, Detail: detail}
	if f.dropped == "" {
		if id := f.row.Key(); id != u.ID {
			return false, exit.With(exit.Bug, fmt.Errorf("unit %s made a row with another id, %q", u.ID, id))
		}
		if o.Row, o.RowBlob, err = l.encode(ctx, u, f.row); err != nil {
			return false, err
		}
	}
	b, err := json.Marshal(o)
	if err != nil {
		return false, exit.With(exit.Bug, fmt.Errorf("unit %s: %w", u.ID, err))
	}
	_, err = l.out.store.Create(ctx, l.key(u), objstore.Bytes(b))
	if errors.Is(err, objstore.ErrExists) {
		return true, nil
	}
	return false, err
}

// encode is a row as JSON, or the blob that has it when it is over the limit.
func (l ledger[Out]) encode(ctx context.Context, u Unit, row Out) (raw json.RawMessage, blob string, err error) {
	if raw, err = json.Marshal(row); err != nil {
		return nil, "", exit.With(exit.Bug, fmt.Errorf("unit %s: its row is no JSON: %w", u.ID, err))
	}
	if len(raw) <= unitLimit-4096 {
		return raw, "", nil
	}
	if blob, err = l.out.putBlob(ctx, objstore.Bytes(raw)); err != nil {
		return nil, "", fmt.Errorf("unit %s: store its row: %w", u.ID, err)
	}
	return nil, blob, nil
}

// attempt is the evidence of a try that could not find out, at
// units/<key>/attempts/<unit>-<n>.json, n counted from 1 over all processes.
type attempt struct {
	Unit  string    `json:"unit"`
	Task  string    `json:"task"`
	Error string    `json:"error"`
	At    time.Time `json:"at"`
	DurMS int64     `json:"dur_ms"`
	// The row as far as it came, as in unitObject; neither is set when there is none.
	Row     json.RawMessage `json:"row,omitempty"`
	RowBlob string          `json:"row_blob,omitempty"`
}

func (l ledger[Out]) attemptKey(u Unit, n int) string {
	return fmt.Sprintf("%s/attempts/%s-%d.json", l.prefix, u.ID, n)
}

// blame stores the evidence of a try under the next free number from n on, and
// returns the number after it. The row is part of it when it has the unit's id.
func (l ledger[Out]) blame(ctx context.Context, u Unit, n int, a attempt, row Out) (next int, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTime)
	defer cancel()
	if row.Key() == u.ID {
		if a.Row, a.RowBlob, err = l.encode(ctx, u, row); err != nil {
			return n, err
		}
	}
	if len(a.Error) > 64<<10 {
		a.Error = strings.ToValidUTF8(a.Error[:64<<10], "") + "…"
	}
	b, err := json.Marshal(a)
	if err != nil {
		return n, err
	}
	for ; ; n++ {
		_, err := l.out.store.Create(ctx, l.attemptKey(u, n), objstore.Bytes(b))
		if !errors.Is(err, objstore.ErrExists) {
			return n + 1, err
		}
	}
}

// tried says whether a unit without an end was tried at all.
func (l ledger[Out]) tried(ctx context.Context, u Unit) (bool, error) {
	_, err := l.out.store.Stat(ctx, l.attemptKey(u, 1))
	if errors.Is(err, objstore.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// checkUnits refuses units that cannot be told apart in the store.
func checkUnits(units []Unit) error {
	seen := make(map[string]bool, len(units))
	for _, u := range units {
		switch {
		case u.ID == "" || len(u.ID) > 200 || strings.ContainsFunc(u.ID, notIDRune) || strings.Trim(u.ID, ".") == "":
			return fmt.Errorf("unit id %q: must be 1 to 200 letters, digits, '.', '_' or '-'", u.ID)
		case seen[u.ID]:
			return fmt.Errorf("unit id %q is there twice", u.ID)
		}
		seen[u.ID] = true
	}
	return nil
}
