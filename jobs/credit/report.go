package credit

import (
	"context"
	"encoding/json"
	"iter"
	"maps"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/jobs/credit/calibration"
)

// report makes calibration.json and calibration.md of a version; compare may be nil.
func report(ctx context.Context, v, compare *datasets.Version, put func(name string, b []byte) error) error {
	r := calibration.New()
	maps.Copy(r.Dropped, v.Manifest().Dropped)
	other := func(string) (record.Credit, bool, error) { return record.Credit{}, false, nil }
	if compare != nil {
		r.Compared = &calibration.Comparison{With: compare.Location().Name + "@" + compare.Digest()}
		next, stop := iter.Pull2(datasets.Rows[record.Credit](ctx, compare))
		defer stop()
		other = seek(next)
	}
	for row, err := range datasets.Rows[record.Credit](ctx, v) {
		if err != nil {
			return err
		}
		r.Add(row)
		b, ok, err := other(row.RolloutID)
		if err != nil {
			return err
		}
		if ok {
			r.Compared.Compare(row, b)
		}
	}
	r.Close()
	raw, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = put("calibration.json", append(raw, '\n'))
	}
	if err != nil {
		return err
	}
	return put("calibration.md", r.Markdown())
}

// seek finds rows by id in a dataset that is read once: ids are asked for in order, as
// the rows of both datasets are.
func seek(next func() (record.Credit, error, bool)) func(id string) (record.Credit, bool, error) {
	var at record.Credit
	more := true
	step := func() (err error) {
		at, err, more = next()
		return err
	}
	return func(id string) (record.Credit, bool, error) {
		for more && at.RolloutID < id {
			if err := step(); err != nil {
				return at, false, err
			}
		}
		return at, more && at.RolloutID == id, nil
	}
}
