package datasets

import (
	"context"
	"iter"
	"runtime"
	"slices"

	"orchard/datasets/arrowio"
	"orchard/datasets/record"
	"orchard/internal/exit"
)

// DefaultInFlight is about how much memory a scan uses for rows that are decoded ahead
// of its caller, in bytes.
const DefaultInFlight = 64 << 20

// Option says which rows are read, what of them, and how.
type Option func(*options)

type options struct {
	query     arrowio.Query
	workers   int
	inFlight  int64
	unordered bool
}

// WithColumns leaves all other fields zero, which spares decompressing and making them.
// A dotted name selects a part of a struct, or of the structs of a list.
func WithColumns(columns ...string) Option {
	return func(o *options) { o.query.Columns = append(o.query.Columns, columns...) }
}

// Where leaves out rows of which the condition does not hold; of several all must. The
// column is a dotted path to a single value; op is ==, !=, <, <=, > or >=; value has the
// column's type (any integer, float64, string, bool, []byte, time.Time) or is nil for
// null, which only equals null. Shards whose statistics rule out every row are not read.
// The column need not be among WithColumns. A condition that does not fit the schema is
// an exit.Config when the rows are read.
func Where(column, op string, value any) Option {
	return func(o *options) {
		o.query.Where = append(o.query.Where, arrowio.Predicate{Column: column, Op: op, Value: value})
	}
}

// Workers sets how many goroutines decode; 0 is one for each core.
func Workers(n int) Option { return func(o *options) { o.workers = n } }

// InFlight sets about how many bytes of rows are decoded ahead; a batch that is larger
// comes alone. 0 is DefaultInFlight.
func InFlight(n int64) Option { return func(o *options) { o.inFlight = n } }

// Unordered yields rows as they are ready instead of by id.
func Unordered() Option { return func(o *options) { o.unordered = true } }

// resolve applies the options and compares them with the schema of the rows.
func (o *options) resolve(opts []Option, s arrowio.Schema) error {
	for _, opt := range opts {
		opt(o)
	}
	if o.workers <= 0 {
		o.workers = runtime.GOMAXPROCS(0)
	}
	if o.inFlight <= 0 {
		o.inFlight = DefaultInFlight
	}
	if err := s.Check(o.query.Columns); err != nil {
		return exit.With(exit.Config, err)
	}
	for i, p := range o.query.Where {
		var err error
		if o.query.Where[i], err = p.Resolve(s); err != nil {
			return exit.With(exit.Config, err)
		}
	}
	return nil
}

// matching is the shards in which a row may pass.
func (v *Version) matching(where []arrowio.Predicate) []Shard {
	return slices.DeleteFunc(slices.Clone(v.manifest.Shards), func(s Shard) bool {
		return slices.ContainsFunc(where, func(p arrowio.Predicate) bool {
			stat, known := s.Stats[p.Column]
			return known && !p.May(stat, s.Rows)
		})
	})
}

// Rows yields all rows by id. Memory is bounded by InFlight, whatever the size of a
// shard. After an error it ends. Rows of another type than R are an error.
func Rows[R record.Row](ctx context.Context, v *Version, opts ...Option) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		var zero R
		want, have := arrowio.SchemaOf[R](), v.manifest.Schema
		if want.Name != have.Name || want.Version != have.Version {
			yield(zero, exit.Inputf("%s holds %s rows of version %d; expected %s of version %d", v.loc, have.Name, have.Version, want.Name, want.Version))
			return
		}
		// Whoever reads all of a row finds out whether another program wrote an id twice.
		last, first := "", true
		check := func(row R) error {
			key := row.Key()
			if !first && key != "" && key <= last {
				return exit.Inputf("%s: the row with id %q comes after %q; ids are unique and in order", v.loc, key, last)
			}
			last, first = key, false
			return nil
		}
		read(ctx, v, want, arrowio.Decode[R], check, opts, yield)
	}
}

// Objects yields all rows by id, whatever their type.
func Objects(ctx context.Context, v *Version, opts ...Option) iter.Seq2[arrowio.Object, error] {
	return func(yield func(arrowio.Object, error) bool) {
		read(ctx, v, v.manifest.Schema, arrowio.DecodeObjects, func(arrowio.Object) error { return nil }, opts, yield)
	}
}

func read[T any](ctx context.Context, v *Version, schema arrowio.Schema, decode func(*arrowio.File, arrowio.Query) (*arrowio.Decoder[T], error),
	check func(T) error, opts []Option, yield func(T, error) bool) {
	var zero T
	s := &scan[T]{v: v, decode: decode}
	if err := s.o.resolve(opts, schema); err != nil {
		yield(zero, err)
		return
	}
	s.shards = v.matching(s.o.query.Where)
	s.run(ctx, func(rows []T, err error) bool {
		for i, row := range rows {
			if err := ctx.Err(); err != nil {
				yield(zero, err)
				return false
			}
			if !s.o.unordered {
				if err := check(row); err != nil {
					yield(zero, err)
					return false
				}
			}
			if !yield(row, nil) {
				return false
			}
			rows[i] = zero // what the caller keeps is the caller's
		}
		if err != nil {
			yield(zero, err)
		}
		return err == nil
	})
}
